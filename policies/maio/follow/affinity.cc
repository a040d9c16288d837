// SPDX-License-Identifier: Apache-2.0
//
// Pieces to XPUs, see affinity.h.
#include "policies/maio/follow/affinity.h"

#include <algorithm>
#include <bit>

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
void Affinity::Targets(uint64_t groups, std::vector<int32_t>* out) const {
  std::vector<int32_t> nodes;
  for (uint64_t left = groups; left != 0; left &= left - 1) {
    uint32_t g = static_cast<uint32_t>(std::countr_zero(left));
    if (g >= xpus_.size()) break;
    if (xpus_[g] < 0 || std::find(nodes.begin(), nodes.end(), nodes_[g]) != nodes.end()) continue;
    nodes.push_back(nodes_[g]);
    out->push_back(xpus_[g]);
  }
}

int32_t Affinity::Target(uint64_t groups, uint64_t offset) const {
  if (!on_) return PPC_NO_XPU;
  if (std::has_single_bit(groups)) return xpus_[static_cast<uint32_t>(std::countr_zero(groups))];
  std::vector<int32_t> targets;
  Targets(groups, &targets);
  if (targets.empty()) return PPC_NO_XPU;
  return targets[offset / kInterleaveBytes % targets.size()];
}

}  // namespace ppc::maio
