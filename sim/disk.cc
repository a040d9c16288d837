// SPDX-License-Identifier: Apache-2.0
#include "sim/disk.h"

#include <algorithm>
#include <utility>

namespace ppc::sim {

void Disk::Submit(uint64_t bytes, std::function<void()> done) {
  ++stats_.requests;
  stats_.bytes += bytes;
  Request request{bytes, std::move(done)};
  if (in_service_ < options_.queue_depth) {
    Begin(std::move(request));
  } else {
    waiting_.push_back(std::move(request));
  }
}

void Disk::Begin(Request request) {
  ++in_service_;
  scheduler_->At(scheduler_->NowNs() + options_.latency_ns,
                 [this, request = std::move(request)] { Transfer(request); });
}

void Disk::Transfer(Request request) {
  const uint64_t now = scheduler_->NowNs();
  const uint64_t oldest = now > options_.burst_ns ? now - options_.burst_ns : 0;
  tokens_ns_ =
      std::max(tokens_ns_, oldest) +
      static_cast<uint64_t>(static_cast<double>(request.bytes) / options_.bytes_per_s * 1e9);
  scheduler_->At(std::max(now, tokens_ns_), [this, done = std::move(request.done)] {
    --in_service_;
    if (!waiting_.empty()) {
      Request next = std::move(waiting_.front());
      waiting_.pop_front();
      Begin(std::move(next));
    }
    done();
  });
}

}  // namespace ppc::sim
