// SPDX-License-Identifier: Apache-2.0
// Owns what ppcd tells monitoring: the answer to `status` as OpenMetrics text, and how long starts
// of services took.
// Threads: the loop's.
#ifndef PPC_DAEMON_SUPERVISOR_METRICS_H_
#define PPC_DAEMON_SUPERVISOR_METRICS_H_

#include <array>
#include <cstdint>
#include <map>
#include <string>
#include <utility>

#include "daemon/base/json.h"

namespace ppc::control {

// From service_start to service_ready, by directory and by how the policy treated the start.
class StartTimes {
 public:
  static constexpr std::array kBoundsS = {1, 2, 5, 10, 20, 30, 60, 120, 300, 600};

  struct Histogram {
    std::array<uint64_t, kBoundsS.size() + 1> counts{};  // of each bucket, the last without bound
    uint64_t count = 0;
    double sum_s = 0;
  };
  // Directory and treatment ("policy", "native", ...).
  using Key = std::pair<std::string, std::string>;

  void Add(const std::string& directory, const std::string& treatment, double seconds);
  const std::map<Key, Histogram>& all() const { return all_; }

 private:
  std::map<Key, Histogram> all_;
};

enum class MetricsFormat {
  kOpenMetrics,  // 1.0
  kPrometheus,   // its text format before that, 0.0.4
};

// `status`: the answer to `status`, of all directories.  Counters of a directory
// begin anew with its runner.  `node`: what `ppcctl node --json` prints; null: not known.
std::string MetricsText(const Json& status, const StartTimes& starts, MetricsFormat format,
                        const Json& node = Json());

const char* MetricsType(MetricsFormat format);  // the content type

}  // namespace ppc::control

#endif  // PPC_DAEMON_SUPERVISOR_METRICS_H_
