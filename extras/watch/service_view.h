// SPDX-License-Identifier: Apache-2.0
// Owns services as `status` and the policy tell of them, and what changed between two looks.
// Threads: pure functions, but for LookAtServices(), which asks ppcd.
#ifndef PPC_EXTRAS_WATCH_SERVICE_VIEW_H_
#define PPC_EXTRAS_WATCH_SERVICE_VIEW_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "daemon/base/json.h"
#include "daemon/base/result.h"
#include "tools/ppcctl/daemon_link.h"

namespace ppc::ctl {

struct WorkerView {
  uint64_t consumed = 0;  // bytes of its sequence
  uint64_t total = 0;     // of these
  // How far it may read on before it meets what is not loaded; std::nullopt: all of it is.
  std::optional<uint64_t> ahead;
};

struct ServiceView {
  std::string state;      // of ppcd: starting, started, ready
  std::string mode;       // of the policy: record, use, ...; "" = it does not tell
  uint64_t total = 0;     // bytes of the template
  uint64_t consumed = 0;  // of all workers' sequences
  uint64_t sequence = 0;  // bytes of these
  uint64_t loaded = 0;    // bytes read ahead, and found there
  uint64_t redundant = 0;
  uint64_t recorded = 0;
  std::vector<WorkerView> workers;
  bool tells_slack = false;                              // of each worker
  std::vector<std::pair<std::string, uint64_t>> phases;  // and when each began, ms
  uint64_t resident = 0;  // clean cache charged to it, or of the runner
  std::string guard;      // what the guard withholds and why; "" = nothing
};

struct DirectoryView {
  std::string state;
  std::string policy;
  std::string last_error;
  uint64_t restarts = 0;
  uint64_t miss_bytes = 0;
  uint64_t lost = 0;       // events
  double device_rate = 0;  // bytes a second, 0 = not known yet
  std::map<std::string, ServiceView> services;
};

using View = std::map<std::string, DirectoryView>;  // by path

// From an answer to `status`.
View ViewOf(const Json& status);
// Adds what the policy says of its services, an answer to its own "status".
void AddPolicyStatus(const Json& reply, DirectoryView& directory);

// One look at all directories, or at `mount`.  A caller that may not ask policies gets what ppcd
// tells.
Result<View> LookAtServices(DaemonLink& link, const std::string& mount, bool ask_policies);

// What `top` shows of a service, by two looks `seconds` apart.
struct ServiceRates {
  double progress = -1;   // share, -1 = not known; so below
  double load_rate = 0;   // bytes a second
  double hit_share = -1;  // of what the directory's services read
  double left_s = -1;     // until all is loaded
  // How far the loads are ahead of the reader that they are least ahead of: bytes, and seconds at
  // its pace since the look before.
  double slack_bytes = -1;
  double slack_s = -1;
  bool is_all_loaded = false;  // slack_bytes is all that is left to read
};
ServiceRates RatesOf(const DirectoryView& before, const DirectoryView& now, const std::string& id,
                     double seconds);

}  // namespace ppc::ctl

#endif  // PPC_EXTRAS_WATCH_SERVICE_VIEW_H_
