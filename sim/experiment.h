// SPDX-License-Identifier: Apache-2.0
// Owns running a scenario: builds the machine, records a template if asked to, runs the service
// under the system, and states the result as the docs define it (bound, ratios, counters).
// Threads: one.
#ifndef PPC_SIM_EXPERIMENT_H_
#define PPC_SIM_EXPERIMENT_H_

#include <map>
#include <string>
#include <vector>

#include "sim/scenario.h"

namespace ppc::sim {

struct Sample {
  double t_s = 0;  // since the clock's start
  uint64_t resident = 0;
  uint64_t disk_bytes = 0;
  uint64_t evicted = 0;
  uint64_t reclaimed = 0;
};

struct Outcome {
  std::map<std::string, double> metrics;
  std::map<std::string, double> measured;  // in real time: varies between runs of one seed
  std::vector<Sample> series;
  Json policy_status;  // status of the runtime at ready; null without a policy
};

// The metrics are listed in README.md.
Result<Outcome> RunScenario(const Scenario& scenario, uint64_t seed);

// A service's life, from exec to the end of its last pass, compared with a run without a policy.
struct Comparison {
  double s = 0;
  double native_s = 0;
  uint64_t bytes = 0;  // from the disk
  uint64_t native_bytes = 0;
  double time_ratio = 0;
  double bytes_ratio = 0;
  // Likewise, less the credit for first mistakes: bytes, and the time to read them.
  double harm_time_ratio = 0;
  double harm_bytes_ratio = 0;
};
// All zero if the service does not even end natively.
Result<Comparison> CompareWithNative(const Scenario& scenario, uint64_t seed);

struct Verdict {
  std::string metric;
  double got = 0;
  Expectation expected;
  bool holds = false;
};
// An expectation of an unknown metric fails.
std::vector<Verdict> Judge(const Scenario& scenario, const Outcome& outcome);

}  // namespace ppc::sim

#endif  // PPC_SIM_EXPERIMENT_H_
