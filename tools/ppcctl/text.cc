// SPDX-License-Identifier: Apache-2.0
#include "tools/ppcctl/text.h"

#include <langinfo.h>

#include <algorithm>
#include <array>
#include <clocale>
#include <cstdio>
#include <string_view>

namespace ppc::ctl {

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

std::string Bar(const std::vector<double>& shares, bool is_utf8) {
  constexpr std::array<std::string_view, 5> kBlocks = {" ", "\u2591", "\u2592", "\u2593", "\u2588"};
  constexpr std::array<std::string_view, 5> kAscii = {" ", ".", ":", "+", "#"};
  std::string bar;
  for (const double share : shares) {
    // Only nothing at all is empty, only everything is full.
    size_t level = share <= 0 ? 0 : share >= 1 ? 4 : 1 + static_cast<size_t>(share * 3);
    level = std::min<size_t>(level, share >= 1 ? 4 : 3);
    bar += is_utf8 ? kBlocks[level] : kAscii[level];
  }
  return bar;
}

bool IsUtf8Locale() {
  std::setlocale(LC_CTYPE, "");
  return std::string_view(nl_langinfo(CODESET)) == "UTF-8";
}

}  // namespace ppc::ctl
