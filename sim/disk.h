// SPDX-License-Identifier: Apache-2.0
// Owns the modelled disk: serves a fixed number of requests at once; each waits the latency, then
// takes its bytes from a rate that allows a short burst after idling (a throttled block device).
// Threads: one.
#ifndef PPC_SIM_DISK_H_
#define PPC_SIM_DISK_H_

#include <cstdint>
#include <deque>
#include <functional>

#include "sim/fiber.h"

namespace ppc::sim {

struct DiskOptions {
  double bytes_per_s = 200e6;
  uint64_t latency_ns = 4'000'000;
  uint64_t burst_ns = 100'000'000;  // after idling, bytes worth this time of the rate pass at once
  uint32_t queue_depth = 16;
  uint64_t request_bytes = 1 << 20;  // the largest request
};

struct DiskStats {
  uint64_t requests = 0;
  uint64_t bytes = 0;
};

class Disk {
 public:
  Disk(Scheduler* scheduler, const DiskOptions& options)
      : scheduler_(scheduler), options_(options), tokens_ns_(Scheduler::kStartNs) {}

  // `done` runs when the request is complete.
  void Submit(uint64_t bytes, std::function<void()> done);
  const DiskOptions& options() const { return options_; }
  // Applies to requests that begin from now on.
  void Slow(double bytes_per_s, uint64_t latency_ns) {
    options_.bytes_per_s = bytes_per_s;
    options_.latency_ns = latency_ns;
  }
  const DiskStats& stats() const { return stats_; }

 private:
  struct Request {
    uint64_t bytes;
    std::function<void()> done;
  };
  void Begin(Request request);
  void Transfer(Request request);

  Scheduler* const scheduler_;
  DiskOptions options_;
  std::deque<Request> waiting_;
  uint32_t in_service_ = 0;
  // The time up to which the rate is used up; at most burst_ns in the past.
  uint64_t tokens_ns_;
  DiskStats stats_;
};

}  // namespace ppc::sim

#endif  // PPC_SIM_DISK_H_
