// SPDX-License-Identifier: Apache-2.0
// Owns what a peer of the service socket may do, by its control group (docs/security.md).  Those of
// the admin socket may do anything.
// Owns the log of refused operations, too.
// Threads: pure functions, any thread.
#ifndef PPC_DAEMON_SUPERVISOR_RIGHTS_H_
#define PPC_DAEMON_SUPERVISOR_RIGHTS_H_

#include <sys/types.h>

#include <cstdint>
#include <string>

#include "daemon/base/clock.h"
#include "daemon/base/rate_limit.h"
#include "daemon/supervisor/peer.h"

namespace ppc::control {

// The owner of a service.
struct Owner {
  std::string cgroup;        // as /proc writes it; "": root's alone
  uid_t uid = 0;             // of the caller that started it
  bool is_claimed = false;   // by a peer of the service socket
  uint64_t group_inode = 0;  // of the cgroup's directory; 0: not known
};

// Whether all peers of this one's user are taken for one tenant: in containers without a user
// namespace every user is user 0.
bool IsOneUser(const Peer& peer);

// A group that processes of several owners are in, since nothing put them into one of their own:
// the root, or a slice of systemd.
bool IsSharedCgroup(const std::string& cgroup);

// True if `cgroup`, written as /proc does, is `top` or below it.
bool IsCgroupWithin(const std::string& cgroup, const std::string& top);

// What is in the peer's own group or below it is the peer's.  In a shared group only what is in
// that very group and of the same user is.
bool IsGroupOfPeer(const std::string& cgroup, const Peer& peer);
bool MayTouch(const Peer& peer, const Owner& owner);

// "uid 1000 pid 77 cgroup \"/a\"", for the log.
std::string Describe(const Peer& peer);

// Owns the log of what was refused for want of a right: the caller and the operation, and the rate
// at which that is written, so that no caller fills the log or hides another's refusals. Threads:
// the loop's.
class Refusals {
 public:
  // Lines at once, of a user in a control group and of all.
  static constexpr unsigned kLines = 20;
  static constexpr unsigned kAllLines = 100;

  void Note(const Peer& peer, const std::string& verb, const std::string& why);

 private:
  RateLimit each_{kLines, 2 * kNsPerSec};
  RateLimit all_{kAllLines, kNsPerSec};
  uint64_t unsaid_ = 0;  // since the last line
};

}  // namespace ppc::control

#endif  // PPC_DAEMON_SUPERVISOR_RIGHTS_H_
