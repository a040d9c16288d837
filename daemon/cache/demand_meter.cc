// SPDX-License-Identifier: Apache-2.0
#include "daemon/cache/demand_meter.h"

#include <algorithm>
#include <numeric>

namespace ppc {

void DemandMeter::Roll(uint64_t now_ns) {
  const uint64_t bucket = now_ns / kBucketNs;
  if (bucket <= bucket_) return;
  const uint64_t passed = std::min<uint64_t>(bucket - bucket_, kBuckets);
  for (uint64_t i = 0; i < passed; ++i) buckets_[(bucket - i) % kBuckets] = 0;
  bucket_ = bucket;
}

void DemandMeter::Add(uint64_t now_ns, uint64_t bytes) {
  Roll(now_ns);
  buckets_[bucket_ % kBuckets] += bytes;
}

uint64_t DemandMeter::Bytes(uint64_t now_ns) {
  Roll(now_ns);
  return std::accumulate(buckets_.begin(), buckets_.end(), uint64_t{0});
}

}  // namespace ppc
