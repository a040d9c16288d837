// SPDX-License-Identifier: Apache-2.0
// Owns who is at the other end of a connection: the process that connected, for as long as it
// lives, and the control group that it is in at the moment.
// Threads: one at a time.
#ifndef PPC_DAEMON_SUPERVISOR_PEER_H_
#define PPC_DAEMON_SUPERVISOR_PEER_H_

#include <sys/types.h>

#include <string>

#include "daemon/base/result.h"
#include "daemon/base/unique_fd.h"
#include "daemon/machine/roots.h"

namespace ppc::control {

// The caller of one request.
struct Peer {
  bool is_admin = false;  // came through the admin socket, which lets in root alone
  pid_t pid = 0;          // in ppcd's pid namespace; 0: it is not in there
  uid_t uid = 0;          // in ppcd's user namespace
  std::string cgroup;     // as /proc writes it; only of a peer of the service socket
};

// A process that cannot be mistaken for a later one of the same number.
class HeldProcess {
 public:
  // ESRCH: there is none.
  static Result<HeldProcess> Open(pid_t pid, const SysRoots& roots);
  // The process that has connected to `socket`.  Where the kernel does not say so by a descriptor
  // (before 6.5) it is the one that has the number now.  ESRCH: it has ended, or ppcd cannot see
  // it.
  static Result<HeldProcess> AtEndOf(int socket, pid_t pid, const SysRoots& roots);

  pid_t pid() const { return pid_; }

  // The memory control group it is in now.  ESRCH: it has ended; EACCES: ppcd cannot see the group.
  Result<std::string> Cgroup() const;
  // True if all its user IDs are `uid`; false if it has ended, too.
  bool IsWholly(uid_t uid) const;
  // ns since boot, 0 if it has ended.
  uint64_t StartNs() const;

 private:
  HeldProcess(pid_t pid, UniqueFd pidfd, uint64_t start_ns, const SysRoots& roots)
      : pid_(pid), pidfd_(std::move(pidfd)), start_ns_(start_ns), roots_(roots) {}
  static Result<HeldProcess> Hold(pid_t pid, UniqueFd pidfd, const SysRoots& roots);
  bool HasEnded() const;
  Error Ended() const;

  pid_t pid_;
  UniqueFd pidfd_;
  uint64_t start_ns_;
  SysRoots roots_;
};

// SO_PEERCRED alone; `cgroup` stays empty.
Result<Peer> PeerOf(int socket);

}  // namespace ppc::control

#endif  // PPC_DAEMON_SUPERVISOR_PEER_H_
