// SPDX-License-Identifier: Apache-2.0
// On which NUMA node the pages lie that only this worker needs.
// Threads: one.
#include "tools/model/loadmodel/placement.h"

#include <numaif.h>

#include "tools/model/common/slice.h"

namespace ppc::bench {
namespace {

constexpr uint64_t kPageBytes = 4096;
constexpr uint64_t kEvery = 8;
constexpr size_t kBatchPages = 64;

}  // namespace

void PlacementProbe::BeginShard(const ShardHeader& header) {
  owners_ = PageOwners(header, tp_, kPageBytes);
  next_page_ = 0;
}

void PlacementProbe::Copied(uint64_t offset, const uint8_t* address, uint64_t bytes) {
  const uint64_t end = (offset + bytes + kPageBytes - 1) / kPageBytes;
  const uint8_t* file_start = address - offset;
  uint64_t page = offset / kPageBytes;
  for (page = page < next_page_ ? next_page_ : page; page < end; ++page) {
    if (owners_[page] != rank_ + 1 || exclusive_++ % kEvery != 0) continue;
    batch_.push_back(const_cast<uint8_t*>(file_start + page * kPageBytes));
    if (batch_.size() == kBatchPages) Flush();
  }
  if (end > next_page_) next_page_ = end;
}

void PlacementProbe::Flush() {
  if (batch_.empty()) return;
  std::vector<int> status(batch_.size(), -1);
  const long failed = ::move_pages(0, batch_.size(), batch_.data(), nullptr, status.data(), 0);
  for (const int node : status) {
    ++count_.sampled;
    if (failed < 0 || node < 0) {
      ++count_.absent;
      continue;
    }
    ++count_.by_node[node];
    ++(node == wanted_node_ ? count_.right : count_.wrong);
  }
  batch_.clear();
}

uint64_t PlacementProbe::TakeRemoteBytes() {
  Flush();
  const uint64_t wrong = count_.wrong - wrong_taken_;
  wrong_taken_ = count_.wrong;
  return wrong * kEvery * kPageBytes;
}

}  // namespace ppc::bench
