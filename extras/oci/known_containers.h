// SPDX-License-Identifier: Apache-2.0
// Owns notes of which container runs which service: one file each, in a directory that a reboot
// empties.  A container that ended without its hook is detected by its process.  Threads and
// processes: any number of hooks at a time; one lock, held only while looking.
#ifndef PPC_EXTRAS_OCI_KNOWN_CONTAINERS_H_
#define PPC_EXTRAS_OCI_KNOWN_CONTAINERS_H_

#include <cstdint>
#include <optional>
#include <string>
#include <utility>

#include "daemon/base/result.h"
#include "daemon/base/unique_fd.h"
#include "daemon/machine/roots.h"

namespace ppc::oci {

struct ContainerNote {
  std::string mount;  // the directory registered
  std::string service_id;
  int pid = 0;
  uint64_t start_ns = 0;  // of the process, since boot
};

class KnownContainers {
 public:
  // Creates the directory, root's, if missing.  ETIMEDOUT: another hook has the lock.
  static Result<KnownContainers> Open(const std::string& directory, const SysRoots& roots,
                                      unsigned timeout_ms);

  // Notes the service of a container (start_ns is looked up), and drops notes of ended containers.
  Status Note(const std::string& container, ContainerNote known);
  // nullopt: no note (any more).
  std::optional<ContainerNote> Forget(const std::string& container);

 private:
  KnownContainers(std::string directory, SysRoots roots, UniqueFd lock)
      : directory_(std::move(directory)), roots_(std::move(roots)), lock_(std::move(lock)) {}
  void DropDead() const;

  std::string directory_;
  SysRoots roots_;
  UniqueFd lock_;
};

}  // namespace ppc::oci

#endif  // PPC_EXTRAS_OCI_KNOWN_CONTAINERS_H_
