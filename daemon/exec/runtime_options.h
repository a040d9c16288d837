// SPDX-License-Identifier: Apache-2.0
// Owns the runtime's own options: the object "runtime" of a registration's configuration.
#ifndef PPC_DAEMON_EXEC_RUNTIME_OPTIONS_H_
#define PPC_DAEMON_EXEC_RUNTIME_OPTIONS_H_

#include <cstdint>
#include <string>

#include "daemon/base/json.h"
#include "daemon/base/result.h"

namespace ppc {

struct RuntimeOptions {
  uint32_t lease_ms = 2000;         // "lease_ms", 100..600000
  int threads_per_node = 0;         // "threads_per_node", 0 = by the number of CPUs
  double threshold = 0.85;          // "threshold", share of the memory limit
  bool is_blind = false;            // "blind": memory and guard limit no load (baselines)
  uint64_t hook_timeout_ms = 1000;  // "hook_timeout_ms"
  std::string cgroup;               // "cgroup": payer and limit while no service is started
  std::string trace_file;           // "trace_file": lines of ppc_context.trace
  std::string template_dir = "/var/lib/ppc/templates";  // "template_dir"
  uint64_t limit_bytes = 0;        // "limit": of the page cache we load, 0 = none
  uint64_t reserve_bytes = 0;      // "reserve": kept free on the machine
  double reserve_share = 0;        // "reserve" given as "10%": of the machine's memory
  uint64_t window_bytes = 0;       // "window": demand window, a power of two, 0 = the mount's
  uint64_t chunk_bytes = 8 << 20;  // "chunk"
  bool auto_service = true;        // "auto_service": readers without a service get one
  bool learnt_starts = false;      // "learnt_starts": begin at the exec of a known program
  bool guard = true;               // "guard": false only to measure what it is good for
  // Not from the configuration.
  uint64_t tick_ns = 200 * 1000 * 1000;
  uint64_t nap_ns = 1000 * 1000;
};

// Unknown keys are an error that names the key.
Result<RuntimeOptions> ParseRuntimeOptions(const Json& runtime);

// What a user who may register policies may not choose: paths that root would write to.
// template_dir is the supervisor's; trace_file must be a *.jsonl below /run, /tmp or /var/tmp.
Status CheckSupervised(const Json& runtime);

}  // namespace ppc

#endif  // PPC_DAEMON_EXEC_RUNTIME_OPTIONS_H_
