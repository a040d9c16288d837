// SPDX-License-Identifier: Apache-2.0
#include "daemon/supervisor/peer.h"

#include <poll.h>
#include <sys/socket.h>
#include <sys/syscall.h>

#include <cerrno>
#include <cstdio>
#include <optional>
#include <utility>

#include "daemon/base/files.h"
#include "daemon/machine/proc_info.h"

namespace ppc::control {
namespace {

#ifndef SO_PEERPIDFD
#define SO_PEERPIDFD 77  // Linux 6.5
#endif

// A group whose directory has been removed; only what has ended is left in one.
constexpr const char* kDeleted = " (deleted)";

}  // namespace

Result<Peer> PeerOf(int socket) {
  ucred credentials{};
  socklen_t bytes = sizeof(credentials);
  if (getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &credentials, &bytes) != 0) {
    return PosixError("SO_PEERCRED", errno);
  }
  return Peer{.pid = credentials.pid, .uid = credentials.uid, .cgroup = ""};
}

Result<HeldProcess> HeldProcess::Hold(pid_t pid, UniqueFd pidfd, const SysRoots& roots) {
  const std::optional<uint64_t> start_ns = ProcessStartNs(roots, pid);
  HeldProcess process(pid, std::move(pidfd), start_ns.value_or(0), roots);
  if (!start_ns || process.HasEnded()) return process.Ended();
  return process;
}

Result<HeldProcess> HeldProcess::Open(pid_t pid, const SysRoots& roots) {
  UniqueFd pidfd(static_cast<int>(syscall(SYS_pidfd_open, pid, 0)));
  if (!pidfd.IsValid()) {
    return Error{ESRCH, "process " + std::to_string(pid) + " does not exist here"};
  }
  return Hold(pid, std::move(pidfd), roots);
}

Result<HeldProcess> HeldProcess::AtEndOf(int socket, pid_t pid, const SysRoots& roots) {
  if (pid <= 0) {
    return Error{ESRCH,
                 "ppcd cannot see the caller's process; run ppcd in the host's pid namespace"};
  }
  int pidfd = -1;
  socklen_t bytes = sizeof(pidfd);
  if (getsockopt(socket, SOL_SOCKET, SO_PEERPIDFD, &pidfd, &bytes) == 0) {
    return Hold(pid, UniqueFd(pidfd), roots);
  }
  if (errno == ENOPROTOOPT) return Open(pid, roots);
  if (errno == EMFILE || errno == ENFILE) return PosixError("SO_PEERPIDFD", errno);
  return Error{ESRCH, "the process that connected, " + std::to_string(pid) +
                          ", has ended; each process connects for itself"};
}

bool HeldProcess::HasEnded() const {
  pollfd waiting{pidfd_.Get(), POLLIN, 0};
  return poll(&waiting, 1, 0) != 0;
}

Error HeldProcess::Ended() const {
  return Error{ESRCH,
               "process " + std::to_string(pid_) + " has ended; each process connects for itself"};
}

// The number was its own when the file was read if it still lives afterwards.
Result<std::string> HeldProcess::Cgroup() const {
  std::optional<std::string> path = ProcessCgroup(roots_, pid_);
  if (HasEnded()) return Ended();
  if (!path || path->empty()) {
    return Error{EACCES, "process " + std::to_string(pid_) +
                             " is in no memory control group that ppcd can see"};
  }
  if (path->ends_with(kDeleted)) return Ended();
  if ((*path + "/").find("/../") != std::string::npos) {
    return Error{EACCES, "process " + std::to_string(pid_) + " is in control group " + *path +
                             ", outside of ppcd's; run ppcd in the host's cgroup namespace"};
  }
  return *std::move(path);
}

bool HeldProcess::IsWholly(uid_t uid) const {
  const Result<std::string> status =
      ReadFile(roots_.Proc("/" + std::to_string(pid_) + "/status"), 16384);
  if (!status || HasEnded()) return false;
  const size_t at = status->find("\nUid:");
  unsigned real = 0, effective = 0, saved = 0, file = 0;
  return at != std::string::npos &&
         std::sscanf(status->c_str() + at, "\nUid: %u %u %u %u", &real, &effective, &saved,
                     &file) == 4 &&
         real == uid && effective == uid && saved == uid && file == uid;
}

uint64_t HeldProcess::StartNs() const { return HasEnded() ? 0 : start_ns_; }

}  // namespace ppc::control
