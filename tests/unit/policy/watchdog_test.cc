// SPDX-License-Identifier: Apache-2.0
#include "daemon/policy/watchdog.h"

#include <gtest/gtest.h>

#include <atomic>
#include <future>
#include <string>
#include <thread>

#include "daemon/base/clock.h"

namespace ppc {
namespace {

TEST(Watchdog, NoticesAHangAndSaysWhichHook) {
  std::promise<std::string> hung;
  std::atomic<int> busy{0};
  Watchdog watchdog({.period_ns = kNsPerMs,
                     .on_hang = [&](const char* hook, uint64_t) { hung.set_value(hook); },
                     .on_busy = [&] { ++busy; }});
  // As long as it is no hang, the lease is kept.
  watchdog.Arm("ppc_plan", MonotonicNs(), 3600 * kNsPerSec);
  while (busy.load() == 0) std::this_thread::yield();
  watchdog.Disarm();
  watchdog.Arm("ppc_tick", MonotonicNs(), 20 * kNsPerMs);
  EXPECT_EQ(hung.get_future().get(), "ppc_tick");
}

TEST(Watchdog, AHookThatEndedIsNoHang) {
  std::atomic<bool> hung{false};
  {
    Watchdog watchdog(
        {.period_ns = kNsPerMs, .on_hang = [&](const char*, uint64_t) { hung = true; }});
    for (int i = 0; i < 1000; ++i) {
      watchdog.Arm("ppc_tick", MonotonicNs(), 3600 * kNsPerSec);
      watchdog.Disarm();
    }
  }
  EXPECT_FALSE(hung);
}

}  // namespace
}  // namespace ppc
