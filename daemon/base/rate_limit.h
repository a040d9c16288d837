// SPDX-License-Identifier: Apache-2.0
// Owns a rate limit: for each key a burst, then one in each period.
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
  // A key that has recovered its burst takes no memory; of the others at most this many are kept,
  // and those closest to recovery are forgotten.
  static constexpr size_t kMaxKeys = 1024;

  RateLimit(unsigned burst, uint64_t period_ns) : burst_(burst), period_ns_(period_ns) {}

  // False: the rate is exceeded.
  bool Take(const std::string& key, uint64_t now_ns);

 private:
  const unsigned burst_;
  const uint64_t period_ns_;
  std::map<std::string, uint64_t> full_again_ns_;  // when the key has its full burst again
};

}  // namespace ppc

#endif  // PPC_DAEMON_BASE_RATE_LIMIT_H_
