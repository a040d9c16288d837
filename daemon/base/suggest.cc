// SPDX-License-Identifier: Apache-2.0
#include "daemon/base/suggest.h"

#include <algorithm>
#include <vector>

namespace ppc {
namespace {

// Longer names are no typing errors, and comparing them would take long.
constexpr size_t kMaxNameBytes = 64;

}  // namespace

size_t EditDistance(std::string_view a, std::string_view b) {
  // Rows of the dynamic-programming table: two before, one before, current.
  std::vector<size_t> older(b.size() + 1), old(b.size() + 1), row(b.size() + 1);
  for (size_t j = 0; j <= b.size(); ++j) old[j] = j;
  for (size_t i = 1; i <= a.size(); ++i) {
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t replaced = old[j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1);
      row[j] = std::min({replaced, old[j] + 1, row[j - 1] + 1});
      const bool is_swapped = i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1];
      if (is_swapped) row[j] = std::min(row[j], older[j - 2] + 1);
    }
    older.swap(old);
    old.swap(row);
  }
  return old[b.size()];
}

std::string DidYouMean(std::string_view given, std::span<const std::string> known) {
  if (given.empty() || given.size() > kMaxNameBytes) return "";
  // Up to a third of the letters may be wrong.
  size_t best = std::max<size_t>(1, given.size() / 3) + 1;
  const std::string* closest = nullptr;
  for (const std::string& name : known) {
    const bool is_start = given.size() >= 3 && name.starts_with(given);
    const size_t distance = is_start ? 1 : EditDistance(given, name);
    if (distance >= best) continue;
    best = distance;
    closest = &name;
  }
  return closest == nullptr ? "" : "; did you mean '" + *closest + "'?";
}

std::string ShellWord(const std::string& word) {
  static constexpr const char* kPlain =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_./:=@%+,-";
  if (!word.empty() && word.find_first_not_of(kPlain) == std::string::npos) return word;
  std::string quoted = "'";
  for (const char c : word) quoted += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return quoted + "'";
}

}  // namespace ppc
