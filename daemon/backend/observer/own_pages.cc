// SPDX-License-Identifier: Apache-2.0
#include "daemon/backend/observer/own_pages.h"

#include <algorithm>

namespace ppc {

void OwnPages::Add(uint64_t file, uint64_t offset, uint64_t length) {
  if (length == 0) return;
  const std::lock_guard lock(mutex_);
  std::vector<bool>& units = files_[file];
  const uint64_t last = (offset + length - 1) / kUnit;
  if (units.size() <= last) units.resize(last + 1, false);
  for (uint64_t unit = offset / kUnit; unit <= last; ++unit) units[unit] = true;
}

void OwnPages::Remove(uint64_t file, uint64_t offset, uint64_t length) {
  const std::lock_guard lock(mutex_);
  const auto found = files_.find(file);
  if (found == files_.end()) return;
  std::vector<bool>& units = found->second;
  const uint64_t end = std::min<uint64_t>((offset + length) / kUnit, units.size());
  for (uint64_t unit = (offset + kUnit - 1) / kUnit; unit < end; ++unit) units[unit] = false;
}

std::vector<std::pair<uint64_t, uint64_t>> OwnPages::Within(uint64_t file, uint64_t offset,
                                                            uint64_t length) const {
  std::vector<std::pair<uint64_t, uint64_t>> parts;
  const std::lock_guard lock(mutex_);
  const auto found = files_.find(file);
  if (found == files_.end() || length == 0) return parts;
  const std::vector<bool>& units = found->second;
  const uint64_t end = offset + length;
  for (uint64_t unit = offset / kUnit; unit * kUnit < end && unit < units.size(); ++unit) {
    if (!units[unit]) continue;
    const uint64_t from = std::max(offset, unit * kUnit);
    const uint64_t to = std::min(end, (unit + 1) * kUnit);
    if (!parts.empty() && parts.back().first + parts.back().second == from) {
      parts.back().second += to - from;
    } else {
      parts.emplace_back(from, to - from);
    }
  }
  return parts;
}

}  // namespace ppc
