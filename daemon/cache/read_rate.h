// SPDX-License-Identifier: Apache-2.0
// Owns keeping loads within the read limits (io.max) of a service's cgroup and its ancestors.
//
// The rule: each limited cgroup has one bucket, shared by all services below it, that fills at
// the limit and holds a tenth of a second of it (one step at least).  Loads take what is in it;
// what the service's own misses read is taken out, too, for the kernel counts it.
// Threads: any.
#ifndef PPC_DAEMON_CACHE_READ_RATE_H_
#define PPC_DAEMON_CACHE_READ_RATE_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "daemon/machine/io_limit.h"

namespace ppc {

// Bytes at a rate.
class TokenBucket {
 public:
  void SetRate(uint64_t bytes_per_s);  // 0 = no limit
  uint64_t Rate() const;
  // What may be taken now, UINT64_MAX without a limit.
  uint64_t Available(uint64_t now_ns);
  void Take(uint64_t now_ns, uint64_t bytes);
  void GiveBack(uint64_t bytes);

 private:
  double Most() const;
  void Fill(uint64_t now_ns);

  mutable std::mutex mutex_;
  uint64_t rate_ = 0;
  double bytes_ = 0;  // below 0: taken by others before it was here
  uint64_t filled_ns_ = 0;
  bool is_filled_ = false;
};

// The buckets of all limited cgroups, by IoLevel::id.
class TokenBuckets {
 public:
  std::shared_ptr<TokenBucket> Get(uint64_t id);

 private:
  std::mutex mutex_;
  std::map<uint64_t, std::weak_ptr<TokenBucket>> buckets_;
};

class ReadRate {
 public:
  // buckets must outlive this.
  ReadRate(std::unique_ptr<IoLimit> limit, TokenBuckets* buckets);

  // The device that loads read from; it is known with the first of them.
  void SetDevice(BlockDevice device);
  // Whether the limits that are known are not too old: they may be set and lifted at any time.
  bool IsKnown(uint64_t now_ns);
  // Asks the kernel for the limits, unless another thread does so at the moment.
  void Refresh(uint64_t now_ns);
  // Grants up to `bytes` (whole steps, or all of it), 0 = nothing now.
  uint64_t Take(uint64_t now_ns, uint64_t bytes);
  // Of what was granted it was not read from the device.
  void GiveBack(uint64_t bytes);
  // The service itself reads.
  void Note(uint64_t now_ns, uint64_t bytes);
  // The tightest limit, bytes a second; 0 = none.
  uint64_t Limit();

 private:
  const std::unique_ptr<IoLimit> limit_;  // of who refreshes
  TokenBuckets* const table_;
  std::atomic<bool> is_reading_{false};
  std::mutex mutex_;  // of what follows; never held while the kernel is asked
  BlockDevice device_;
  bool has_device_ = false;
  uint64_t looked_ns_ = 0;
  std::vector<std::shared_ptr<TokenBucket>> buckets_;  // only those with a limit
};

}  // namespace ppc

#endif  // PPC_DAEMON_CACHE_READ_RATE_H_
