// SPDX-License-Identifier: Apache-2.0
// Owns the choice among the backends: who asks here knows none of them.
// Threads: any; no state.
#ifndef PPC_DAEMON_BACKEND_FACTORY_H_
#define PPC_DAEMON_BACKEND_FACTORY_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "daemon/backend/backend.h"
#include "daemon/backend/backend_kind.h"
#include "daemon/base/result.h"
#include "daemon/base/unique_fd.h"
#include "daemon/machine/roots.h"

namespace ppc {

// What ppcd keeps for all its runners and lends to one: the observer's programs (program_set.h).
struct LentPrograms {
  std::vector<UniqueFd> fds;  // empty: nothing was lent
  uint32_t dir = 0;           // our number there
};

// `dir`: an absolute path.  kAuto takes the module on a ppc mount; elsewhere the observer, and
// where that cannot work polling.  The error is one line with the remedy.
// device: "/dev/ppcN" that `dir` has to be, ENODEV where it is not any more; "": whatever is there.
Result<std::unique_ptr<Backend>> OpenBackend(BackendKind kind, const std::string& dir,
                                             const SysRoots& roots, LentPrograms lent = {},
                                             const std::string& device = "");

// Polls processes, without a privilege (extras/poll).  ENOTSUP: built without it.
Result<std::unique_ptr<Backend>> OpenPolling(const std::string& dir, const SysRoots& roots);

}  // namespace ppc

#endif  // PPC_DAEMON_BACKEND_FACTORY_H_
