// SPDX-License-Identifier: Apache-2.0
// Owns what ppcd knows of control groups: where a process is, and a group of
// its own for every runner.
// Threads: any.
#ifndef PPC_DAEMON_SUPERVISOR_CGROUPS_H_
#define PPC_DAEMON_SUPERVISOR_CGROUPS_H_

#include <sys/types.h>

#include <cstdint>
#include <string>

#include "daemon/base/result.h"
#include "daemon/machine/roots.h"

namespace ppc::control {

class Cgroups {
 public:
  explicit Cgroups(const SysRoots& roots);
  // Leaves no group behind.
  ~Cgroups();
  Cgroups(const Cgroups&) = delete;
  Cgroups& operator=(const Cgroups&) = delete;

  // The process' memory cgroup as /proc writes it ("/services/a").
  Result<std::string> OfProcess(pid_t pid) const;

  struct Group {
    std::string directory;
    std::string name;  // as /proc writes it
    uint64_t inode = 0;
  };
  // The group of a path as a client writes it: below the cgroup file system, or
  // relative to the hierarchy ("/services/a"), v1's memory controller's too: found as the
  // runner finds it.  Must exist.
  Result<Group> Resolve(const std::string& path) const;

  // Makes the directory of runner `name`; an error where there is no cgroup2 or
  // no right to write it, which is no reason not to run.
  Result<std::string> MakeRunnerGroup(const std::string& name) const;

 private:
  // The directory of all runners' groups.
  Result<std::string> RunnersDir() const;

  SysRoots roots_;
  std::string cgroup_root_;
};

}  // namespace ppc::control

#endif  // PPC_DAEMON_SUPERVISOR_CGROUPS_H_
