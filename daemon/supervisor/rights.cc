// SPDX-License-Identifier: Apache-2.0
#include "daemon/supervisor/rights.h"

#include "daemon/base/files.h"
#include "daemon/base/json.h"
#include "daemon/base/log.h"

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

void Refusals::Note(const Peer& peer, const std::string& verb, const std::string& why) {
  const uint64_t now_ns = MonotonicNs();
  if (!each_.Take(std::to_string(peer.uid) + " " + peer.cgroup, now_ns) || !all_.Take("", now_ns)) {
    ++unsaid_;
    return;
  }
  std::string line = "refused: " + Describe(peer) + " " + verb + ": " + why;
  if (unsaid_ > 0) line += " (and " + std::to_string(unsaid_) + " refusals not logged)";
  unsaid_ = 0;
  Log(LogLevel::kWarning, line);
}

}  // namespace ppc::control
