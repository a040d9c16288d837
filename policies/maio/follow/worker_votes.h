// SPDX-License-Identifier: Apache-2.0
//
// Which worker a process is, by what it reads: what another worker read when the
// template was recorded, often enough and none of its own between, and it is that one.
#ifndef POLICIES_MAIO_FOLLOW_WORKER_VOTES_H_
#define POLICIES_MAIO_FOLLOW_WORKER_VOTES_H_

#include <cstdint>
#include <map>
#include <optional>
#include <utility>

#include "policies/maio/follow/layout.h"

struct miss_io;

namespace ppc::maio {

class WorkerVotes {
 public:
  explicit WorkerVotes(const Layout* layout) : layout_(layout) {}

  // A read of none of the process's own.  The group that it turns out to be by this, and all count
  // anew.  What the kernel read ahead for it says nothing: it runs into the neighbours' slices.
  std::optional<uint32_t> Take(const miss_io& event, uint32_t file);
  bool empty() const { return votes_.empty(); }
  // The process has read its own.
  void Forget(const miss_io& event);
  // Times a process turned out to be another worker.
  uint32_t swaps() const { return swaps_; }

 private:
  struct Votes {
    uint32_t total = 0;
    std::map<uint32_t, uint32_t> per_group;
  };

  const Layout* const layout_;
  std::map<std::pair<int32_t, uint64_t>, Votes> votes_;  // by pid and its start
  uint32_t swaps_ = 0;
};

}  // namespace ppc::maio

#endif  // POLICIES_MAIO_FOLLOW_WORKER_VOTES_H_
