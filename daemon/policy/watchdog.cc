// SPDX-License-Identifier: Apache-2.0
#include "daemon/policy/watchdog.h"

#include <pthread.h>

#include <chrono>
#include <utility>

#include "daemon/base/clock.h"
#include "daemon/base/threads.h"

namespace ppc {

Watchdog::Watchdog(Options options)
    : options_(std::move(options)), thread_(StartThread("the watchdog", [this] { Run(); })) {}

Watchdog::~Watchdog() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  wake_.notify_all();
  thread_.join();
}

void Watchdog::Arm(const char* hook, uint64_t start_ns, uint64_t limit_ns) {
  hook_.store(hook, std::memory_order_relaxed);
  limit_ns_.store(limit_ns, std::memory_order_relaxed);
  start_ns_.store(start_ns, std::memory_order_release);
}

void Watchdog::Disarm() { start_ns_.store(0, std::memory_order_release); }

void Watchdog::Run() {
  pthread_setname_np(pthread_self(), "ppc-watchdog");
  std::unique_lock lock(mutex_);
  while (!stop_) {
    wake_.wait_for(lock, std::chrono::nanoseconds(options_.period_ns));
    const uint64_t start = start_ns_.load(std::memory_order_acquire);
    if (stop_ || start == 0) continue;
    const uint64_t limit = limit_ns_.load(std::memory_order_relaxed);
    const uint64_t now = MonotonicNs();
    const uint64_t elapsed = now > start ? now - start : 0;
    // A hook that ended meanwhile may have left another's limit behind: look again.
    if (start_ns_.load(std::memory_order_acquire) != start) continue;
    if (elapsed > limit) {
      if (options_.on_hang) options_.on_hang(hook_.load(std::memory_order_relaxed), elapsed);
      return;
    }
    if (elapsed > options_.period_ns && options_.on_busy) options_.on_busy();
  }
}

}  // namespace ppc
