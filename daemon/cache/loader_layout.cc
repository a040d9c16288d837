// SPDX-License-Identifier: Apache-2.0
#include "daemon/cache/loader_layout.h"

#include <algorithm>

namespace ppc {
namespace {

int ThreadsFor(const NumaNode& node, int per_node, int least, int most) {
  if (per_node > 0) return per_node;
  return std::clamp(static_cast<int>(node.cpus.size()) / 4, std::min(least, most), most);
}

size_t NodeSlots(const std::vector<NumaNode>& nodes) {
  int highest = 0;
  for (const NumaNode& node : nodes) highest = std::max(highest, node.id);
  return static_cast<size_t>(std::min(highest + 1, kMaxNodes));
}

}  // namespace

LoaderLayout::LoaderLayout(const std::vector<NumaNode>& nodes, int per_node, int least,
                           int most_of_node)
    : has_threads_(NodeSlots(nodes), false), takes_any_(NodeSlots(nodes), false) {
  const bool has_cpus =
      std::ranges::any_of(nodes, [](const NumaNode& node) { return !node.cpus.empty(); });
  int most = 0;
  for (const NumaNode& node : nodes) {
    const auto slot = static_cast<size_t>(node.id);
    has_threads_[slot] = true;
    // Memory of a device or beyond a link is for who names it.
    takes_any_[slot] = !node.cpus.empty() || !has_cpus;
    if (takes_any_[slot]) any_.push_back(node.id);
    most = std::max(most, ThreadsFor(node, per_node, least, most_of_node));
  }
  for (int i = 0; i < most; ++i) {
    for (const NumaNode& node : nodes) {
      if (i >= ThreadsFor(node, per_node, least, most_of_node)) continue;
      Thread& thread = threads_.emplace_back(Thread{.node = node.id, .cpus = {}});
      // Bound to one core each, in turn; a node without CPUs is served from anywhere.
      if (!node.cpus.empty()) {
        thread.cpus = {node.cpus[static_cast<size_t>(i) % node.cpus.size()]};
      }
    }
  }
}

}  // namespace ppc
