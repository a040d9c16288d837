// SPDX-License-Identifier: Apache-2.0
#include "daemon/supervisor/start_rights.h"

#include <cerrno>

#include "daemon/base/files.h"
#include "daemon/machine/tenant_group.h"
#include "daemon/supervisor/rights.h"

namespace ppc::control {
namespace {

bool IsOfGroup(const Owner& owner, const Peer& peer) {
  return owner.cgroup == peer.cgroup && (!IsSharedCgroup(peer.cgroup) || owner.uid == peer.uid);
}

}  // namespace

Status StartRights::Check(Registration& registration, const std::string& id, const Json& body,
                          const Peer& peer) {
  if (peer.is_admin) return Ok();
  const std::string own = DumpJson(peer.cgroup);
  const Service* known = registration.services().Find(id);
  if (known != nullptr && !MayTouch(peer, known->owner)) {
    return Error{EACCES, "service " + id + " runs on " + registration.mount().path +
                             ", started by another control group than " + own +
                             "; give yours an --id of its own"};
  }
  if (const auto it = body.find("cgroup"); it != body.end()) {
    const std::string& cgroup = it->get_ref<const std::string&>();
    // A directory would be compared with the names of groups.
    if (IsBelow(cgroup, "/sys/fs/cgroup") || !IsGroupOfPeer(cgroup, peer)) {
      return Error{EACCES, "\"cgroup\" " + DumpJson(cgroup.substr(0, 256)) +
                               " is not the caller's, " + own + ", or below it; leave it out"};
    }
  }
  if (IsSharedCgroup(peer.cgroup) && !body.contains("pid")) {
    return Error{EINVAL, "control group " + own +
                             " is everybody's, so \"pid\" must say whose the " +
                             "service is; give --pid, or start it in a group of its own"};
  }
  const uint64_t now_ns = MonotonicNs();
  if (!starts_.Take(std::to_string(IsSharedCgroup(peer.cgroup) ? peer.uid : 0) + own, now_ns)) {
    return Error{EAGAIN, "control group " + own + " starts services too often; try again in " +
                             std::to_string(kPeriodNs / kNsPerSec) + " s"};
  }
  return known == nullptr ? CheckRoom(peer) : Ok();
}

Status StartRights::CheckRoom(const Peer& peer) const {
  const std::string tenant = TenantGroup(peer.cgroup);
  size_t of_group = 0, of_tenant = 0, of_user = 0;
  for (const auto& [key, registration] : registrations_.all()) {
    const Services& services = registration->services();
    of_group +=
        services.Claimed([&peer](const Owner& owner) { return IsOfGroup(owner, peer); }).size();
    of_tenant +=
        services
            .Claimed([&tenant](const Owner& owner) { return TenantGroup(owner.cgroup) == tenant; })
            .size();
    of_user +=
        services.Claimed([&peer](const Owner& owner) { return owner.uid == peer.uid; }).size();
  }
  const std::string remedy = " services already; stop those that have ended";
  if (of_group >= kMaxServicesOfGroup) {
    return Error{ENOSPC, "control group " + DumpJson(peer.cgroup) + " has " +
                             std::to_string(of_group) + remedy};
  }
  if (!tenant.empty() && of_tenant >= kMaxServicesOfUser) {
    return Error{ENOSPC, "control group " + DumpJson(tenant) + " has, with those below it, " +
                             std::to_string(of_tenant) + remedy};
  }
  if (IsOneUser(peer) && of_user >= kMaxServicesOfUser) {
    return Error{ENOSPC,
                 "user " + std::to_string(peer.uid) + " has " + std::to_string(of_user) + remedy};
  }
  return Ok();
}

Status StartRights::CheckRoot(const HeldProcess& root, const Peer& peer) {
  if (peer.is_admin || root.pid() == peer.pid) return Ok();
  const Result<std::string> cgroup = root.Cgroup();
  if (!cgroup) return cgroup.error();
  if (IsGroupOfPeer(*cgroup, peer) && (!IsSharedCgroup(peer.cgroup) || root.IsWholly(peer.uid))) {
    return Ok();
  }
  return Error{EACCES, "\"pid\" " + std::to_string(root.pid()) + " is no process of the caller's " +
                           "control group, " + DumpJson(peer.cgroup) +
                           "; give one of its own, or 0 for the caller"};
}

}  // namespace ppc::control
