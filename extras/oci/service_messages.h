// SPDX-License-Identifier: Apache-2.0
// Owns telling ppcd of a container's service and of its end, within a deadline.
// Threads and processes: any number at a time.
#ifndef PPC_EXTRAS_OCI_SERVICE_MESSAGES_H_
#define PPC_EXTRAS_OCI_SERVICE_MESSAGES_H_

#include <cstdint>
#include <string>

#include "daemon/base/result.h"
#include "daemon/machine/roots.h"
#include "extras/oci/container.h"

namespace ppc::oci {

struct Call {
  std::string socket;  // of ppcd
  std::string notes;   // directory beside the socket
  SysRoots roots;
  unsigned timeout_ms = 0;
  uint64_t deadline_ns = 0;
  // False: the container's author is no operator, and uses what is registered.
  bool may_register = true;
};
// By $PPC_SOCKET; its time begins now.
Call CallOfEnvironment(unsigned timeout_ms);

// Registers the directory of the container's model if needed, and starts the service, unless PPC
// does not apply.  await_s: for so many seconds ppcd loads for a container that does not run yet;
// container.pid is then a process of its pod.  0: it runs.
Status StartService(const Call& call, const Container& container, unsigned await_s = 0);

// ppcd also sees the process end, so most often nothing is left to stop.
Status StopService(const Call& call, const Container& container);

}  // namespace ppc::oci

#endif  // PPC_EXTRAS_OCI_SERVICE_MESSAGES_H_
