// SPDX-License-Identifier: Apache-2.0
// Owns how often something may happen: for each key so many times at once, then once in a period.
// Threads: one at a time.
#ifndef PPC_DAEMON_BASE_RATE_LIMIT_H_
#define PPC_DAEMON_BASE_RATE_LIMIT_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>

namespace ppc {

class RateLimit {
 public:
  // Keys that have used nothing of late cost nothing; of others no more than this are kept, and
  // those that have used least are forgotten.
  static constexpr size_t kMaxKeys = 1024;

  RateLimit(unsigned burst, uint64_t period_ns) : burst_(burst), period_ns_(period_ns) {}

  // False: not now.
  bool Take(const std::string& key, uint64_t now_ns);

 private:
  const unsigned burst_;
  const uint64_t period_ns_;
  std::map<std::string, uint64_t> full_again_ns_;  // when nothing will be missing any more
};

}  // namespace ppc

#endif  // PPC_DAEMON_BASE_RATE_LIMIT_H_
