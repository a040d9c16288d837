// SPDX-License-Identifier: Apache-2.0
#include "daemon/supervisor/memory_shares.h"

#include <algorithm>
#include <numeric>

namespace ppc::control {
namespace {

// Adds equal parts of `total` to the shares, to none beyond its bound; returns what is left.
uint64_t Deal(uint64_t total, const std::vector<uint64_t>& bounds, std::vector<uint64_t>* shares) {
  const auto room = [&](size_t i) {
    return bounds[i] > (*shares)[i] ? bounds[i] - (*shares)[i] : 0;
  };
  std::vector<size_t> order(bounds.size());
  std::iota(order.begin(), order.end(), 0);
  std::ranges::stable_sort(order, {}, room);
  size_t left = order.size();
  for (const size_t i : order) {
    const uint64_t part = std::min(room(i), total / left--);
    (*shares)[i] += part;
    total -= part;
  }
  return total;
}

}  // namespace

std::vector<uint64_t> FairShares(uint64_t total, std::span<const MemoryNeed> needs) {
  std::vector<uint64_t> wants;
  std::vector<uint64_t> most;
  for (const MemoryNeed& need : needs) {
    wants.push_back(std::min(need.wants, need.most));
    most.push_back(need.most);
  }
  std::vector<uint64_t> shares(needs.size(), 0);
  Deal(Deal(total, wants, &shares), most, &shares);
  return shares;
}

}  // namespace ppc::control
