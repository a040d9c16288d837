// SPDX-License-Identifier: Apache-2.0
#include "daemon/backend/observer/own_pages.h"

#include <algorithm>

namespace ppc {

void OwnPages::Mark(uint64_t file, uint64_t first, uint64_t end, bool is_ours) {
  const std::lock_guard lock(mutex_);
  if (DiscoveredFiles::IsDiscovered(file)) {
    uint16_t marks = discovered_->Units(file);
    for (; first < std::min<uint64_t>(end, DiscoveredFiles::kUnits); ++first) {
      const auto bit = static_cast<uint16_t>(1u << first);
      marks = static_cast<uint16_t>(is_ours ? marks | bit : marks & ~bit);
    }
    discovered_->SetUnits(file, marks);
  }
  if (first < end && is_ours && files_.size() >= kMaxFiles && !files_.contains(file))
    files_.erase(files_.begin());  // its pages count as strangers' from now on
  const auto found = first < end && is_ours ? files_.try_emplace(file).first : files_.find(file);
  if (found == files_.end()) return;
  std::vector<bool>& units = found->second;
  if (is_ours && units.size() < end) units.resize(end, false);
  for (end = std::min<uint64_t>(end, units.size()); first < end; ++first) units[first] = is_ours;
  if (!is_ours && std::ranges::find(units, true) == units.end()) files_.erase(found);
}

size_t OwnPages::Size() const {
  const std::lock_guard lock(mutex_);
  return files_.size();
}

void OwnPages::Add(uint64_t file, uint64_t offset, uint64_t length) {
  if (length == 0) return;
  Mark(file, offset / kUnit, (offset + length - 1) / kUnit + 1, true);
}

void OwnPages::Remove(uint64_t file, uint64_t offset, uint64_t length) {
  Mark(file, (offset + kUnit - 1) / kUnit, (offset + length) / kUnit, false);
}

std::vector<std::pair<uint64_t, uint64_t>> OwnPages::Within(uint64_t file, uint64_t offset,
                                                            uint64_t length) const {
  std::vector<std::pair<uint64_t, uint64_t>> parts;
  const std::lock_guard lock(mutex_);
  const uint16_t marks =
      DiscoveredFiles::IsDiscovered(file) ? discovered_->Units(file) : uint16_t{0};
  const auto found = files_.find(file);
  if (length == 0 || (marks == 0 && found == files_.end())) return parts;
  static const std::vector<bool> kNone;
  const std::vector<bool>& units = found == files_.end() ? kNone : found->second;
  const uint64_t last = std::max<uint64_t>(units.size(), marks == 0 ? 0 : DiscoveredFiles::kUnits);
  const uint64_t end = offset + length;
  for (uint64_t unit = offset / kUnit; unit * kUnit < end && unit < last; ++unit) {
    const bool is_marked = unit < DiscoveredFiles::kUnits && (marks >> unit & 1) != 0;
    if (!is_marked && (unit >= units.size() || !units[unit])) continue;
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
