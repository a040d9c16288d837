// SPDX-License-Identifier: Apache-2.0
#include "daemon/policy/watchdog.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <fstream>
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

// How often a thread of this process has waited.
uint64_t WaitsOf(pid_t thread) {
  std::ifstream status("/proc/self/task/" + std::to_string(thread) + "/status");
  uint64_t waits = 0;
  for (std::string word; status >> word && word != "voluntary_ctxt_switches:";) {
  }
  status >> waits;
  return waits;
}

TEST(Watchdog, AHookThatEndedIsNoHang) {
  std::atomic<bool> hung{false};
  std::atomic<pid_t> thread{0};
  std::atomic<int> busy{0};
  Watchdog watchdog({.period_ns = kNsPerMs,
                     .on_hang = [&](const char*, uint64_t) { hung = true; },
                     .on_busy =
                         [&] {
                           thread = gettid();
                           ++busy;
                         }});
  // It began long ago: each turn finds it busy.
  watchdog.Arm("ppc_tick", MonotonicNs() - kNsPerSec, 3600 * kNsPerSec);
  while (busy.load() == 0) std::this_thread::yield();
  watchdog.Disarm();
  const auto pass_turns = [&] {
    const uint64_t before = WaitsOf(thread);
    while (WaitsOf(thread) < before + 3) std::this_thread::yield();
  };
  pass_turns();  // the one that was under way
  const int seen = busy;
  pass_turns();
  EXPECT_EQ(busy, seen);
  EXPECT_FALSE(hung);
}

}  // namespace
}  // namespace ppc
