// SPDX-License-Identifier: Apache-2.0
// Owns keeping loads within the read limits (io.max) of a service's cgroup and its ancestors.
//
// The rule: each limited cgroup has one bucket, shared by all services below it, that fills at
// the limit and holds a tenth of a second of it (one step at least).  Loads take what is in it;
// what the service's own misses read is taken out, too, for the kernel counts it.  Where there are
// other runners, which load below the same cgroups, a supervisor says how much of a limit is ours.
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
#include <utility>
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
  // A load would have taken more than was in it.
  void Lack();
  // The amount taken, and whether a load lacked more, since it was asked last.
  std::pair<uint64_t, bool> TakeUse();

 private:
  double Most() const;
  void Fill(uint64_t now_ns);

  mutable std::mutex mutex_;
  uint64_t rate_ = 0;
  double bytes_ = 0;  // negative: the service's own reads used tokens that are still to come
  uint64_t filled_ns_ = 0;
  bool is_filled_ = false;
  uint64_t used_ = 0;
  bool is_short_ = false;
};

// What a supervisor leaves us of the limits, as it says it.
struct RateShares {
  uint64_t runners = 1;  // it speaks to
  // Our bytes a second, by cgroup and device.  For a limit that is not there: all of it, or, beside
  // other runners, a small part.
  std::map<std::pair<uint64_t, BlockDevice>, uint64_t> rates;
};

// One limit that loads keep to; bytes a second.
struct RateUse {
  uint64_t cgroup = 0;  // IoLevel::id
  BlockDevice device;
  uint64_t limit = 0;  // the kernel's
  uint64_t used = 0;
  bool is_short = false;  // more would have been read
};

// The buckets of all limited cgroups, by cgroup and device.
class TokenBuckets {
 public:
  // The bucket of a level with a limit, filled at our share of it.
  std::shared_ptr<TokenBucket> Get(const IoLevel& level);
  void SetShares(RateShares shares);
  // Since it was asked last.
  std::vector<RateUse> TakeUses(uint64_t now_ns);

 private:
  struct Entry {
    std::weak_ptr<TokenBucket> bucket;
    uint64_t limit = 0;
  };
  uint64_t RateOf(const std::pair<uint64_t, BlockDevice>& id, uint64_t limit) const;

  std::mutex mutex_;
  std::map<std::pair<uint64_t, BlockDevice>, Entry> buckets_;
  RateShares shares_;
  uint64_t asked_ns_ = 0;
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
  // So many of the granted bytes were not read from the device.
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
