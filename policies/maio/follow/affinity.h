// SPDX-License-Identifier: Apache-2.0
//
// Which XPU's memory a piece belongs to in this run (paper, section 4.1, "XPU
// affinity loading"): that of the worker that reads it; what several workers on
// different nodes read is spread over them by 2 MiB.
#ifndef POLICIES_MAIO_FOLLOW_AFFINITY_H_
#define POLICIES_MAIO_FOLLOW_AFFINITY_H_

#include <cstdint>
#include <vector>

#include "policies/maio/follow/layout.h"

struct ppc_context;

namespace ppc::maio {

inline constexpr uint64_t kInterleaveBytes = 2ull << 20;

class Affinity {
 public:
  Affinity(const ppc_context* context, const Layout& layout, bool on);

  // XPU of a group slot; -1 unknown.
  void Bind(uint32_t group, int32_t xpu);
  int32_t xpu(uint32_t group) const { return xpus_[group]; }
  int32_t NodeOfXpu(int32_t xpu) const;

  // Target of a byte that these groups read; PPC_NO_XPU when it does not matter.
  int32_t Target(const GroupSet& groups, uint64_t offset) const;

 private:
  void Targets(const GroupSet& groups, std::vector<int32_t>* out) const;

  const ppc_context* context_;
  bool on_;
  std::vector<int32_t> xpus_;   // per group slot
  std::vector<int32_t> nodes_;  // per group slot
};

}  // namespace ppc::maio

#endif  // POLICIES_MAIO_FOLLOW_AFFINITY_H_
