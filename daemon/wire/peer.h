// SPDX-License-Identifier: Apache-2.0
// Owns who is at the other end of a connection, and what that allows.
#ifndef PPC_DAEMON_WIRE_PEER_H_
#define PPC_DAEMON_WIRE_PEER_H_

#include <sys/types.h>

#include <algorithm>
#include <vector>

namespace ppc::control {

struct Peer {
  pid_t pid = 0;
  uid_t uid = 0;
  std::vector<gid_t> groups;  // the first is the effective one
};

// root, or the user ppcd runs as.
inline bool IsPrivileged(const Peer& peer, uid_t own_uid) {
  return peer.uid == 0 || peer.uid == own_uid;
}

// These, or a member of the socket's group.
inline bool MayChangeState(const Peer& peer, uid_t own_uid, gid_t socket_gid) {
  return IsPrivileged(peer, own_uid) ||
         std::find(peer.groups.begin(), peer.groups.end(), socket_gid) != peer.groups.end();
}

}  // namespace ppc::control

#endif  // PPC_DAEMON_WIRE_PEER_H_
