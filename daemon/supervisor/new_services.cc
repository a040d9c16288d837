// SPDX-License-Identifier: Apache-2.0
#include "daemon/supervisor/new_services.h"

#include <cerrno>
#include <cstddef>
#include <optional>
#include <utility>

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
  if (Status status = rights_.Check(registration, service.id, body, peer); !status) {
    return status.error();
  }
  if (root) {
    if (Status status = StartRights::CheckRoot(*root, peer); !status) return status.error();
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

}  // namespace ppc::control
