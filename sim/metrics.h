// SPDX-License-Identifier: Apache-2.0
// Owns the metrics of one start-up.  README.md lists them.
// Threads: any.
#ifndef PPC_SIM_METRICS_H_
#define PPC_SIM_METRICS_H_

#include <cstdint>
#include <map>
#include <string>

#include "sim/start_up.h"

namespace ppc::sim {

double Share(uint64_t part, uint64_t whole);
void AddMetrics(const Scenario& s, const StartUpResult& run, std::map<std::string, double>* out);

// Adds the hooks' CPU time, which differs from run to run.
void AddMeasured(const StartUpResult& run, std::map<std::string, double>* out);

}  // namespace ppc::sim

#endif  // PPC_SIM_METRICS_H_
