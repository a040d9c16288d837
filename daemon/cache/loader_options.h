// SPDX-License-Identifier: Apache-2.0
// Owns what can be set of the loader.
// Threads: any; it does not change.
#ifndef PPC_DAEMON_CACHE_LOADER_OPTIONS_H_
#define PPC_DAEMON_CACHE_LOADER_OPTIONS_H_

#include <cstddef>
#include <cstdint>
#include <functional>

#include "daemon/cache/bandwidth_governor.h"

namespace ppc {

struct LoaderOptions {
  uint64_t chunk_bytes = 8 << 20;
  int threads_per_node =
      0;  // 0 = clamp(CPUs of the node / 4, Capabilities::least_loads, most_loads)
  size_t max_items = 131072;
  int small_loads = 0;                    // small items under way at once; 0 = as all others
  bool manual = false;                    // no threads: RunSlice drives it (tests, simulator)
  uint64_t retry_ns = 100 * 1000 * 1000;  // how soon who found no memory looks again
  BandwidthGovernor::Options governor;
  // Whether others on the machine wait for I/O; from a loader's thread, of one at a time, after
  // each step.
  std::function<bool(uint64_t now_ns)> neighbours_wait;
  std::function<void(uint64_t bytes)> on_loaded;  // from a loader's thread, before Stats has it
};

}  // namespace ppc

#endif  // PPC_DAEMON_CACHE_LOADER_OPTIONS_H_
