// SPDX-License-Identifier: Apache-2.0
#include "daemon/wire/service_id.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cerrno>
#include <charconv>
#include <cmath>
#include <string>
#include <string_view>

#include "daemon/base/digests.h"

namespace ppc::control {
namespace {

constexpr size_t kIdDigits = 32;
constexpr size_t kMinIdChars = 4;
constexpr size_t kMaxIdChars = 64;
// Above this a double no longer tells neighbouring whole numbers apart.
constexpr double kExactWhole = 9007199254740992.0;

constexpr std::array<std::string_view, 5> kNotIo = {"host", "port", "xpus", "cgroup", "pid"};

std::string ShortestNumber(double value) {
  if (value == std::floor(value) && std::abs(value) < kExactWhole) {
    return std::to_string(static_cast<int64_t>(value));
  }
  std::array<char, 40> text{};
  const auto [end, ec] = std::to_chars(text.data(), text.data() + text.size(), value);
  return ec == std::errc() ? std::string(text.data(), end) : "0";
}

void AppendCanonical(const Json& value, std::string& out) {
  if (value.is_object()) {
    out += '{';
    const char* separator = "";
    for (const auto& [key, member] : value.items()) {  // Json objects iterate in key order
      out += separator + DumpJson(key) + ":";
      AppendCanonical(member, out);
      separator = ",";
    }
    out += '}';
  } else if (value.is_array()) {
    out += '[';
    const char* separator = "";
    for (const Json& element : value) {
      out += separator;
      AppendCanonical(element, out);
      separator = ",";
    }
    out += ']';
  } else if (value.is_number_float()) {
    out += ShortestNumber(value.get<double>());
  } else {
    out += DumpJson(value);
  }
}

Json WithoutKeysOutsideIo(const Json& params) {
  Json kept = Json::object();
  for (const auto& [key, value] : params.items()) {
    if (std::find(kNotIo.begin(), kNotIo.end(), key) == kNotIo.end()) kept[key] = value;
  }
  return kept;
}

}  // namespace

std::string CanonicalParams(const Json& params) {
  std::string out;
  AppendCanonical(WithoutKeysOutsideIo(params), out);
  return out;
}

Result<ServiceName> MakeServiceName(const Json& params) {
  if (!params.is_object()) return Error{EINVAL, "\"params\" must be a JSON object"};
  ServiceName name;
  name.canonical = CanonicalParams(params);
  if (name.canonical == "{}") {
    return Error{EINVAL,
                 "\"params\" names nothing that changes what is read; give at least the model, "
                 "e.g. {\"model\":\"qwen2.5-72b\",\"tp\":4}"};
  }
  name.id = Sha256Hex(name.canonical).substr(0, kIdDigits);
  return name;
}

Status CheckServiceId(const std::string& id) {
  const auto is_plain = [](char c) {
    return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '.' || c == '_' || c == '-';
  };
  const bool good = id.size() >= kMinIdChars && id.size() <= kMaxIdChars &&
                    std::isalnum(static_cast<unsigned char>(id[0])) != 0 &&
                    std::all_of(id.begin(), id.end(), is_plain);
  if (good) return Ok();
  return Error{EINVAL,
               "service ID '" + id.substr(0, kMaxIdChars) +
                   "': it must be 4 to 64 letters, digits, '.', '_' or '-', the first a letter or "
                   "digit; `ppcctl service-id` computes one"};
}

Result<Json> ServiceInConfig(const Json& config) {
  if (!config.is_object() || !config.contains("service_id")) return Json();
  const Json& id = config["service_id"];
  if (!id.is_string()) return Error{EINVAL, "\"service_id\" of a configuration must be text"};
  if (Status status = CheckServiceId(id.get<std::string>()); !status) return status.error();
  Json message{{"op", "service_start"},
               {"service_id", id},
               {"service", 0},
               {"by_cgroup", false},
               {"ready", true},  // nothing is loaded before its first reader
               {"owner", {{"cgroup", ""}, {"uid", geteuid()}}}};
  for (const char* key : {"params", "xpus", "workers", "node", "nodes", "first_worker"}) {
    if (config.contains(key)) message[key] = config[key];
  }
  if (!config.contains("workers") && config.contains("xpus") && config["xpus"].is_array()) {
    message["workers"] = config["xpus"].size();
  }
  // The group that pays where there is no service pays for this one.
  const Json runtime = config.value("runtime", Json());
  if (runtime.is_object() && runtime.contains("cgroup")) message["cgroup"] = runtime["cgroup"];
  return message;
}

}  // namespace ppc::control
