// SPDX-License-Identifier: Apache-2.0
// Owns the thread that keeps memory free (FreeFloor) where --free-floor asks for it: the kernel may
// reclaim for long, and the loop waits for nothing.
// Threads: Describe from any.
#ifndef PPC_DAEMON_SUPERVISOR_FLOOR_THREAD_H_
#define PPC_DAEMON_SUPERVISOR_FLOOR_THREAD_H_

#include <atomic>
#include <cstdint>
#include <stop_token>
#include <thread>

#include "daemon/base/json.h"
#include "daemon/machine/free_floor.h"
#include "daemon/supervisor/options.h"

namespace ppc::control {

class FloorThread {
 public:
  // Starts nothing without a floor.
  explicit FloorThread(const Options& options);

  // null without a floor.
  Json Describe() const;

 private:
  void Run(const std::stop_token& stop);

  const uint64_t floor_bytes_;
  FreeFloor floor_;
  std::atomic<uint64_t> reclaimed_{0};  // bytes that the kernel was asked for
  std::atomic<bool> has_failed_{false};
  std::jthread thread_;  // last: it uses the others
};

}  // namespace ppc::control

#endif  // PPC_DAEMON_SUPERVISOR_FLOOR_THREAD_H_
