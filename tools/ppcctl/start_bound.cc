// SPDX-License-Identifier: Apache-2.0
#include "tools/ppcctl/start_bound.h"

#include <algorithm>

namespace ppc::ctl {

StartBound BoundOf(const StartCost& cost) {
  const auto bytes = static_cast<double>(cost.bytes);
  const auto cache = static_cast<double>(cost.cache_bytes);
  if (cost.bytes <= cost.cache_bytes) {
    return {std::max(cost.init_s + cost.hot_load_s, bytes / cost.disk_rate), false};
  }
  const double ahead = std::min(cache, cost.init_s * cost.disk_rate);
  return {cost.init_s + std::max(cost.hot_load_s, (bytes - ahead) / cost.disk_rate), true};
}

}  // namespace ppc::ctl
