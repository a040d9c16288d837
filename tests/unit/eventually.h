// SPDX-License-Identifier: Apache-2.0
// Owns waiting in tests for what another thread or process does: with an end far beyond what a busy
// machine takes, so that only what never comes fails.
#ifndef PPC_TESTS_UNIT_EVENTUALLY_H_
#define PPC_TESTS_UNIT_EVENTUALLY_H_

#include <sys/resource.h>
#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <fstream>
#include <functional>
#include <string>
#include <thread>

namespace ppc {

inline bool Eventually(const std::function<bool()>& condition,
                       std::chrono::milliseconds within = std::chrono::seconds(20)) {
  const auto end = std::chrono::steady_clock::now() + within;
  while (!condition()) {
    if (std::chrono::steady_clock::now() > end) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  return true;
}

// How often this thread has given up its CPU, as one that waits does.
inline long WaitsOfThisThread() {
  rusage usage{};
  getrusage(RUSAGE_THREAD, &usage);
  return usage.ru_nvcsw;
}

// How often a thread of this process has waited.
inline uint64_t WaitsOf(pid_t thread) {
  std::ifstream status("/proc/self/task/" + std::to_string(thread) + "/status");
  uint64_t waits = 0;
  for (std::string word; status >> word && word != "voluntary_ctxt_switches:";) {
  }
  status >> waits;
  return waits;
}

}  // namespace ppc

#endif  // PPC_TESTS_UNIT_EVENTUALLY_H_
