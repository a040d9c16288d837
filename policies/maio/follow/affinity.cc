// SPDX-License-Identifier: Apache-2.0
//
// Pieces to XPUs, see affinity.h.
#include "policies/maio/follow/affinity.h"

#include <algorithm>

#include "ppc.h"

namespace ppc::maio {

Affinity::Affinity(const ppc_context* context, const Layout& layout, bool on)
    : context_(context),
      on_(on && context->nr_nodes > 1),
      xpus_(layout.groups().size(), PPC_NO_XPU),
      nodes_(layout.groups().size(), -1) {}

int32_t Affinity::NodeOfXpu(int32_t xpu) const {
  if (xpu < 0 || context_->xpu_node == nullptr) return -1;
  return context_->xpu_node(context_, xpu);
}

void Affinity::Bind(uint32_t group, int32_t xpu) {
  xpus_[group] = xpu;
  nodes_[group] = NodeOfXpu(xpu);
}

// One XPU per distinct node among the groups, in group order.
void Affinity::Targets(const GroupSet& groups, std::vector<int32_t>* out) const {
  std::vector<int32_t> nodes;
  groups.ForEach([&](uint32_t g) {
    if (xpus_[g] < 0 || std::find(nodes.begin(), nodes.end(), nodes_[g]) != nodes.end()) return;
    nodes.push_back(nodes_[g]);
    out->push_back(xpus_[g]);
  });
}

int32_t Affinity::Target(const GroupSet& groups, uint64_t offset) const {
  if (!on_) return PPC_NO_XPU;
  if (groups.IsOne()) return xpus_[groups.First()];
  std::vector<int32_t> targets;
  Targets(groups, &targets);
  if (targets.empty()) return PPC_NO_XPU;
  return targets[offset / kInterleaveBytes % targets.size()];
}

}  // namespace ppc::maio
