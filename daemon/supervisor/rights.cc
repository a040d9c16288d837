// SPDX-License-Identifier: Apache-2.0
#include "daemon/supervisor/rights.h"

#include "daemon/base/files.h"
#include "daemon/base/json.h"

namespace ppc::control {

bool IsSharedCgroup(const std::string& cgroup) {
  return cgroup.empty() || cgroup == "/" || cgroup.ends_with(".slice");
}

bool IsOneUser(const Peer& peer) { return peer.uid != 0 || IsSharedCgroup(peer.cgroup); }

bool IsCgroupWithin(const std::string& cgroup, const std::string& top) {
  const std::string ended = cgroup + "/";
  const bool is_canonical = cgroup.starts_with("/") && ended.find("//") == std::string::npos &&
                            ended.find("/./") == std::string::npos &&
                            ended.find("/../") == std::string::npos;
  return cgroup == top || (is_canonical && IsBelow(cgroup, top));
}

bool IsGroupOfPeer(const std::string& cgroup, const Peer& peer) {
  if (peer.is_admin) return true;
  if (cgroup.empty() || peer.cgroup.empty()) return false;
  return IsSharedCgroup(peer.cgroup) ? cgroup == peer.cgroup : IsCgroupWithin(cgroup, peer.cgroup);
}

bool MayTouch(const Peer& peer, const Owner& owner) {
  if (peer.is_admin) return true;
  return IsGroupOfPeer(owner.cgroup, peer) &&
         (!IsSharedCgroup(peer.cgroup) || owner.uid == peer.uid);
}

std::string Describe(const Peer& peer) {
  std::string text = "uid " + std::to_string(peer.uid) + " pid " + std::to_string(peer.pid);
  // A group's name may have any byte in it.
  if (!peer.is_admin) text += " cgroup " + DumpJson(peer.cgroup);
  return text;
}

}  // namespace ppc::control
