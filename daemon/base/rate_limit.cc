// SPDX-License-Identifier: Apache-2.0
#include "daemon/base/rate_limit.h"

#include <algorithm>

namespace ppc {

bool RateLimit::Take(const std::string& key, uint64_t now_ns) {
  const auto it = full_again_ns_.find(key);
  const uint64_t full_again_ns =
      std::max(it == full_again_ns_.end() ? 0 : it->second, now_ns) + period_ns_;
  if (full_again_ns - now_ns > burst_ * period_ns_) return false;
  if (it != full_again_ns_.end()) {
    it->second = full_again_ns;
    return true;
  }
  if (full_again_ns_.size() >= kMaxKeys) {
    std::erase_if(full_again_ns_, [now_ns](const auto& entry) { return entry.second <= now_ns; });
  }
  // A new key must not be refused because of others.
  if (full_again_ns_.size() >= kMaxKeys)
    full_again_ns_.erase(std::ranges::min_element(full_again_ns_, {},
                                                  [](const auto& entry) { return entry.second; }));
  full_again_ns_[key] = full_again_ns;
  return true;
}

}  // namespace ppc
