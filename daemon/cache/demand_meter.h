// SPDX-License-Identifier: Apache-2.0
// Owns how much the front end missed in the last 100 ms.
// Threads: the executor's.
#ifndef PPC_DAEMON_CACHE_DEMAND_METER_H_
#define PPC_DAEMON_CACHE_DEMAND_METER_H_

#include <array>
#include <cstddef>
#include <cstdint>

namespace ppc {

class DemandMeter {
 public:
  void Add(uint64_t now_ns, uint64_t bytes);
  uint64_t Bytes(uint64_t now_ns);

 private:
  void Roll(uint64_t now_ns);

  static constexpr uint64_t kBucketNs = 10 * 1000 * 1000;
  static constexpr size_t kBuckets = 10;
  std::array<uint64_t, kBuckets> buckets_{};
  uint64_t bucket_ = 0;  // number of the newest
};

}  // namespace ppc

#endif  // PPC_DAEMON_CACHE_DEMAND_METER_H_
