// SPDX-License-Identifier: Apache-2.0
#include "tools/ppcctl/text.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <ctime>
#include <string_view>

namespace ppc::ctl {
namespace {

// Counters of bytes that their names do not tell: anywhere, and of the loader and evictor.
constexpr std::array<std::string_view, 4> kByteNames = {"own_cache", "read_limit", "window",
                                                        "beacon"};
constexpr std::array<std::string_view, 11> kAmountNames = {
    "asked",   "loaded", "resident", "failed", "replaced", "inflight",
    "dropped", "mapped", "dirty",    "locked", "busy"};

template <typename Names>
bool IsOneOf(std::string_view name, const Names& names) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

}  // namespace

std::string HumanBytes(uint64_t bytes) {
  constexpr std::array kUnits = {"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
  auto value = static_cast<double>(bytes);
  size_t unit = 0;
  while (value >= 1024 && unit + 1 < kUnits.size()) {
    value /= 1024;
    ++unit;
  }
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), unit == 0 ? "%.0f %s" : "%.1f %s", value, kUnits[unit]);
  return text.data();
}

std::string HumanSeconds(double seconds) {
  const auto whole = static_cast<uint64_t>(seconds < 0 ? 0 : seconds);
  if (whole < 60) {
    std::array<char, 32> text{};
    std::snprintf(text.data(), text.size(), "%.1f s", seconds < 0 ? 0 : seconds);
    return text.data();
  }
  constexpr uint64_t kMinute = 60, kHour = 3600, kDay = 86400;
  const auto two = [whole](uint64_t big, const char* name, uint64_t small, const char* rest) {
    return std::to_string(whole / big) + " " + name + " " + std::to_string(whole % big / small) +
           " " + rest;
  };
  if (whole < kHour) return two(kMinute, "min", 1, "s");
  return whole < kDay ? two(kHour, "h", kMinute, "min") : two(kDay, "d", kHour, "h");
}

std::string LocalTime(uint64_t time_ns) {
  const auto seconds = static_cast<std::time_t>(time_ns / 1000000000);
  std::tm parts{};
  localtime_r(&seconds, &parts);
  std::array<char, 32> text{};
  std::strftime(text.data(), text.size(), "%Y-%m-%dT%H:%M:%S%z", &parts);
  return text.data();
}

std::string HumanCounter(const std::string& name, uint64_t value) {
  const std::string last = name.substr(name.rfind('.') + 1);
  const std::string number = std::to_string(value);
  if (last.ends_with("_ms")) return HumanSeconds(static_cast<double>(value) / 1000);
  if (last.ends_with("_us")) return number + " us";
  if (last.ends_with("_mbps")) return number + " MB/s";
  if (last.ends_with("_percent")) return number + " %";
  if (last.ends_with("_bytes") || IsOneOf(last, kByteNames)) return HumanBytes(value);
  const bool is_amount =
      (name.starts_with("loader.") || name.starts_with("evictor.")) && IsOneOf(last, kAmountNames);
  const bool is_memory = name.find(".memory.") != name.npos && last != "is_cgroup";
  const bool is_node = name.starts_with("loader.node_");
  return is_amount || is_memory || is_node ? HumanBytes(value) : number;
}

std::string Table(const std::vector<std::vector<std::string>>& rows) {
  std::vector<size_t> widths;
  for (const auto& row : rows) {
    widths.resize(std::max(widths.size(), row.size()));
    for (size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
  }
  std::string text;
  for (const auto& row : rows) {
    for (size_t i = 0; i < row.size(); ++i) {
      text += row[i];
      // Nothing to align behind the last.
      if (i + 1 < row.size()) text.append(widths[i] - row[i].size() + 2, ' ');
    }
    text += '\n';
  }
  return text;
}

std::string GuardLine(const Json& service) {
  const Json& guard = JsonMember(service, "guard");
  const std::string state = JsonText(guard, "state");
  const std::string reason = JsonText(guard, "reason");
  if (state.empty() || state == "open") return "";
  return reason.empty() ? state : state + ": " + reason;
}

}  // namespace ppc::ctl
