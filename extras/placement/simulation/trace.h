// SPDX-License-Identifier: Apache-2.0
// Owns a cluster in simulated time: nodes with a page cache and a disk, and starts of services that
// a placer places.  Deterministic: the same trace and seed give the same starts.
// Threads: one per call.
#ifndef BENCH_PLACEMENT_TRACE_H_
#define BENCH_PLACEMENT_TRACE_H_

#include <cstddef>
#include <cstdint>
#include <vector>

namespace ppc::bench {

struct Trace {
  size_t starts = 1000;
  size_t nodes = 50;
  size_t models = 20;
  double least_model = 15e9;  // bytes; intermediate sizes are evenly spaced
  double greatest_model = 140e9;
  double zipf = 1.0;
  double cache = 200e9;    // page cache of a node
  double disk = 3e9;       // bytes/s
  double between_s = 2.0;  // mean time between two starts
  double publish_s = 2.0;  // age limit of a node's published state
};

enum class Placement { kRandom, kLeastLoaded, kHashing, kScore };
const char* NameOf(Placement placement);

struct Outcome {
  double mean_s = 0;  // of a start's load
  double p99_s = 0;
  double read_bytes = 0;  // by all disks
  size_t warm = 0;        // starts without a wait
  size_t nodes_used = 0;
};

Outcome Simulate(const Trace& trace, Placement placement, uint64_t seed);

// Means over the seeds 1 to `seeds`.
Outcome Average(const Trace& trace, Placement placement, uint64_t seeds);

}  // namespace ppc::bench

#endif  // BENCH_PLACEMENT_TRACE_H_
