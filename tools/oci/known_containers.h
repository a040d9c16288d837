// SPDX-License-Identifier: Apache-2.0
// Owns the notes of which container runs which service: one file each, in a directory that goes
// with the machine's start.  A container that ended without its hook is recognized by its process.
// Threads and processes: any number of hooks at a time; one lock, held for no longer than looking.
#ifndef PPC_TOOLS_OCI_KNOWN_CONTAINERS_H_
#define PPC_TOOLS_OCI_KNOWN_CONTAINERS_H_

#include <cstdint>
#include <optional>
#include <string>
#include <utility>

#include "daemon/base/result.h"
#include "daemon/base/unique_fd.h"
#include "daemon/machine/roots.h"

namespace ppc::oci {

struct Known {
  std::string mount;  // the directory registered
  std::string service_id;
  int pid = 0;
  uint64_t start_ns = 0;  // of the process, since boot
};

class KnownContainers {
 public:
  // Makes the directory if it is not there, root's.  ETIMEDOUT: another hook has the lock.
  static Result<KnownContainers> Open(const std::string& directory, const SysRoots& roots,
                                      unsigned timeout_ms);

  // Two containers of one kind on one machine are two services: `known.service_id`, or the first of
  // ID.2, ID.3, ... that no other living container has, is noted and returned.
  Result<std::string> Take(const std::string& container, Known known);
  // nullopt: nothing is noted (any more).
  std::optional<Known> Forget(const std::string& container);

 private:
  KnownContainers(std::string directory, SysRoots roots, UniqueFd lock)
      : directory_(std::move(directory)), roots_(std::move(roots)), lock_(std::move(lock)) {}
  bool IsTaken(const std::string& service_id) const;

  std::string directory_;
  SysRoots roots_;
  UniqueFd lock_;
};

}  // namespace ppc::oci

#endif  // PPC_TOOLS_OCI_KNOWN_CONTAINERS_H_
