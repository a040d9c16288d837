// SPDX-License-Identifier: Apache-2.0
#include "daemon/supervisor/cgroups.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

#include "daemon/machine/cgroup.h"
#include "daemon/machine/proc_info.h"

namespace ppc::control {
namespace {

// mkdir that is content with what is there.
Status MakeDirectory(const std::string& path) {
  if (mkdir(path.c_str(), 0755) == 0 || errno == EEXIST) return Ok();
  return PosixError("mkdir " + path, errno);
}

}  // namespace

Cgroups::Cgroups(const SysRoots& roots) : roots_(roots), cgroup_root_(roots.Sys("/fs/cgroup")) {}

// Fails while another ppcd has runners there.
Cgroups::~Cgroups() {
  if (const Result<std::string> parent = RunnersDir()) rmdir(parent->c_str());
}

Result<std::string> Cgroups::OfProcess(pid_t pid) const {
  const std::optional<std::string> path = ProcessCgroup(roots_, pid);
  if (!path) return Error{ESRCH, "process " + std::to_string(pid) + " is in no memory cgroup"};
  return *path;
}

Result<Cgroups::Group> Cgroups::Resolve(const std::string& path) const {
  if (path.find('\0') != std::string::npos) return Error{EINVAL, "\"cgroup\" has a NUL in it"};
  const Result<Cgroup> group = Cgroup::Open(path, roots_);
  if (group) return Group{group->path(), group->relative(), group->id()};
  Error error = group.error();
  if (error.code == ENOENT) error.message += "; create it before the service starts";
  return error;
}

Result<std::string> Cgroups::RunnersDir() const {
  const Result<std::string> own = OfProcess(getpid());
  if (!own) return own.error();
  return cgroup_root_ + (*own == "/" ? "" : *own) + "/ppc.runners";
}

Result<std::string> Cgroups::MakeRunnerGroup(const std::string& name) const {
  if (access((cgroup_root_ + "/cgroup.procs").c_str(), W_OK) != 0) {
    return PosixError(cgroup_root_ + " has no writable cgroup2", errno);
  }
  const Result<std::string> parent = RunnersDir();
  if (!parent) return parent.error();
  if (Status status = MakeDirectory(*parent); !status) return std::move(status).error();
  const std::string dir = *parent + "/" + name;
  if (Status status = MakeDirectory(dir); !status) return std::move(status).error();
  return dir;
}

}  // namespace ppc::control
