// SPDX-License-Identifier: Apache-2.0
// A template as MAIO records it, of a load that is simulated: every worker of a tensor-parallel
// service maps every shard of a published model at full size and touches its slices, and the
// accesses reach the recorder as the kernel module reports them: page faults merged per open file,
// in events that are cut by size and by time, of all workers interleaved, some late.
// Threads: free functions without state.
#ifndef PPC_BENCH_TEMPLATE_SIMULATED_RECORDING_H_
#define PPC_BENCH_TEMPLATE_SIMULATED_RECORDING_H_

#include <cstdint>

#include "policies/maio/template/template.h"
#include "tools/model/common/model_layout.h"

namespace ppc::bench {

struct Jitter {
  uint64_t seed = 1;
  double rate = 0.2;       // workers' speeds differ by so much, and change by so much
  double cut = 0.1;        // events that are cut in two
  double late = 0.02;      // events that come late
  uint64_t late_ms = 20;   // by at most so much
  double repeated = 0.01;  // events of which a part is touched again
};

maio::Template SimulateRecording(const ModelSpec& model, uint64_t scale, uint32_t workers,
                                 const Jitter& jitter);

}  // namespace ppc::bench

#endif  // PPC_BENCH_TEMPLATE_SIMULATED_RECORDING_H_
