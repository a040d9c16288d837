// SPDX-License-Identifier: Apache-2.0
// A bounded number of threads that do one job each; the first failure is kept and stops the others
// at their next look. Threads: Fail, HasFailed and Stop from any; the rest from the owner.
#ifndef PPC_BENCH_RIVALS_CREW_H_
#define PPC_BENCH_RIVALS_CREW_H_

#include <atomic>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "daemon/base/result.h"

namespace ppc::bench {

class Crew {
 public:
  // job: Status(), run on a thread of its own.
  template <typename Job>
  void Start(Job job) {
    threads_.emplace_back([this, job = std::move(job)]() mutable {
      const Status done = job();
      if (!done.ok()) Fail(done.error());
    });
  }

  void Fail(const Error& error) {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (!error_) error_ = error;
    has_failed_ = true;
  }
  bool HasFailed() const { return has_failed_; }

  // Waits for all; the first failure.
  Status Join() {
    threads_.clear();
    const std::lock_guard<std::mutex> lock(mutex_);
    if (error_) return *error_;
    return Ok();
  }

 private:
  std::mutex mutex_;
  std::optional<Error> error_;
  std::atomic<bool> has_failed_ = false;
  std::vector<std::jthread> threads_;  // last: joined before what they use goes
};

}  // namespace ppc::bench

#endif  // PPC_BENCH_RIVALS_CREW_H_
