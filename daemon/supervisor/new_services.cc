// SPDX-License-Identifier: Apache-2.0
#include "daemon/supervisor/new_services.h"

#include <cerrno>
#include <cstddef>
#include <optional>
#include <utility>

#include "daemon/base/files.h"
#include "daemon/machine/cgroup.h"
#include "daemon/machine/proc_info.h"
#include "daemon/supervisor/rights.h"
#include "daemon/wire/service_id.h"

namespace ppc::control {
namespace {

Result<std::string> IdOf(const Json& body) {
  if (const auto it = body.find("service_id"); it != body.end()) {
    const std::string id = it->get<std::string>();
    if (Status status = CheckServiceId(id); !status) return status.error();
    return id;
  }
  const auto params = body.find("params");
  if (params == body.end()) {
    return Error{EINVAL, "service_start needs \"service_id\" or \"params\""};
  }
  Result<ServiceName> name = MakeServiceName(*params);
  if (!name) return name.error();
  return name->id;
}

bool IsOfGroup(const Owner& owner, const Peer& peer) {
  return owner.cgroup == peer.cgroup && (!IsSharedCgroup(peer.cgroup) || owner.uid == peer.uid);
}

}  // namespace

// Several starts of one service at a time, each with a process of its own, are replicas: the first
// has the name, the others "NAME.2", "NAME.3" and so on, and what was learnt of it.  A process that
// tells of its start again keeps what it has.
std::string NewServices::IdBeside(Registration& registration, const Service& service) const {
  std::string free;
  for (size_t replica = 1; replica <= Services::kMaxServices; ++replica) {
    std::string id = service.id + (replica == 1 ? "" : "." + std::to_string(replica));
    const Service* known = registration.services().Find(id);
    const bool is_same = known != nullptr && known->root_pid == service.root_pid &&
                         known->pid_start_ns == service.pid_start_ns;
    if (is_same) return id;
    if (free.empty() && (known == nullptr || !roots_.IsAlive(registration.handle(), *known))) {
      free = std::move(id);
    }
  }
  return free.empty() ? service.id : free;
}

Result<Service> NewServices::Make(Registration& registration, const Json& body, const Peer& peer) {
  const Result<std::string> name = IdOf(body);
  if (!name) return name.error();
  Service service;
  service.id = *name;
  std::optional<HeldProcess> root;
  if (body.contains("pid")) {
    Result<HeldProcess> opened = HeldProcess::Open(body["pid"].get<pid_t>(), sys_roots_);
    if (!opened) return opened.error();
    root = *std::move(opened);
    service.root_pid = root->pid();
    service.pid_start_ns = root->StartNs();
    service.id = IdBeside(registration, service);
    if (Status status = CheckServiceId(service.id); !status) return status.error();
  }
  if (Status status = Check(registration, service.id, body, peer); !status) {
    return status.error();
  }
  if (root) {
    if (Status status = CheckRoot(*root, peer); !status) return status.error();
  }
  const Result<uint32_t> number = registration.services().NumberFor(service.id);
  if (!number) return number.error();
  service.number = *number;
  service.message = {{"op", "service_start"}, {"service_id", service.id}, {"service", *number}};
  if (service.id != *name) service.message["template"] = *name;
  for (const char* key : {"params", "xpus", "workers", "node", "nodes", "first_worker", "pid"}) {
    if (body.contains(key)) service.message[key] = body[key];
  }
  if (!service.message.contains("workers") && service.message.contains("xpus")) {
    service.message["workers"] = service.message["xpus"].size();
  }
  if (Status status = Place(service, body, peer); !status) return status.error();
  return service;
}

Status NewServices::Place(Service& service, const Json& body, const Peer& peer) const {
  service.owner = Owner{"", peer.uid, !peer.is_admin};
  const bool is_shared = !peer.is_admin && IsSharedCgroup(peer.cgroup);
  if (body.contains("cgroup")) {
    const Result<Cgroups::Group> cgroup = cgroups_.Resolve(body["cgroup"].get<std::string>());
    if (!cgroup) return cgroup.error();
    service.message["cgroup"] = cgroup->directory;
    service.owner.cgroup = cgroup->name;
  } else {
    const pid_t root = service.root_pid != 0 ? service.root_pid : peer.pid;
    const Result<std::string> cgroup =
        peer.is_admin ? cgroups_.OfProcess(root) : Result<std::string>(peer.cgroup);
    if (cgroup) service.message["cgroup"] = *cgroup;
    // Where root tells neither, the group is that of root's shell, whose other processes have no
    // right to the service.
    if (cgroup && (!peer.is_admin || service.root_pid != 0)) service.owner.cgroup = *cgroup;
  }
  // The payer only: its process may share the cgroup with others.
  const bool tells_process_only = body.contains("pid") && !body.contains("cgroup");
  if (tells_process_only || is_shared) service.message["by_cgroup"] = false;
  const std::string& owner = service.owner.cgroup;
  if (const Result<Cgroups::Group> group = cgroups_.Resolve(owner); !owner.empty() && group)
    service.owner.group_inode = group->inode;
  service.message["owner"] = {
      {"cgroup", owner.empty() ? service.message.value("cgroup", "") : owner}, {"uid", peer.uid}};
  const pid_t of = service.root_pid != 0 ? service.root_pid : peer.pid;
  if (const std::string network = ProcessNetwork(sys_roots_, of); !network.empty())
    service.message["owner"]["network"] = network;
  return Ok();
}

Status NewServices::Check(Registration& registration, const std::string& id, const Json& body,
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

Status NewServices::CheckRoom(const Peer& peer) const {
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

Status NewServices::CheckRoot(const HeldProcess& root, const Peer& peer) {
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
