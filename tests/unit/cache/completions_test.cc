// SPDX-License-Identifier: Apache-2.0
#include "daemon/cache/completions.h"

#include <gtest/gtest.h>
#include <poll.h>

#include <atomic>
#include <chrono>
#include <thread>

namespace ppc {
namespace {

bool IsReadable(const Completions& completions) {
  pollfd ready{completions.fd(), POLLIN, 0};
  return poll(&ready, 1, 0) == 1;
}

TEST(Completions, WakesOnceForSeveralResults) {
  Completions completions;
  EXPECT_FALSE(IsReadable(completions));
  for (uint64_t i = 0; i < 3; ++i) completions.Push(IoResult{.file = i});
  EXPECT_TRUE(IsReadable(completions));
  std::vector<IoResult> results;
  completions.Take(&results);
  EXPECT_EQ(results.size(), 3u);
  EXPECT_FALSE(IsReadable(completions));
  completions.WakeThreads();
  EXPECT_TRUE(IsReadable(completions));
}

// Taken while it is being pushed: who polls the descriptor would spin for ever.
TEST(Completions, NothingStaysReadableOnceAllIsTaken) {
  constexpr auto kTime = std::chrono::milliseconds(2000);
  Completions completions;
  std::atomic<int> started{0};
  std::atomic<int> pushed{0};
  std::jthread loader([&](const std::stop_token& stop) {
    while (!stop.stop_requested()) {
      if (pushed == started) {
        std::this_thread::yield();
        continue;
      }
      completions.Push(IoResult{});
      ++pushed;
    }
  });
  int left_readable = 0;
  const auto end = std::chrono::steady_clock::now() + kTime;
  while (left_readable == 0 && std::chrono::steady_clock::now() < end) {
    ++started;
    std::vector<IoResult> results;
    while (results.empty()) completions.Take(&results);
    while (pushed != started) std::this_thread::yield();
    results.clear();
    completions.Take(&results);
    left_readable += IsReadable(completions) ? 1 : 0;
  }
  EXPECT_EQ(left_readable, 0) << "after " << started << " results";
}

}  // namespace
}  // namespace ppc
