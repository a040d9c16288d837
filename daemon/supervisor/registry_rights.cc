// SPDX-License-Identifier: Apache-2.0
// What peers of the service socket may do to services, what they see of them, and the end of those
// that they leave behind.
#include <algorithm>
#include <cerrno>
#include <utility>

#include "daemon/base/clock.h"
#include "daemon/base/files.h"
#include "daemon/base/log.h"
#include "daemon/machine/mount_table.h"
#include "daemon/supervisor/registry.h"

namespace ppc::control {
namespace {

constexpr const char* kOnlyIts = "; only that group, or root on ppcd's admin socket, may";

bool IsOfGroup(const Owner& owner, const Peer& peer) {
  return owner.cgroup == peer.cgroup && (!IsSharedCgroup(peer.cgroup) || owner.uid == peer.uid);
}

}  // namespace

Registration* Registry::FindAround(const std::string& path) {
  Registration* innermost = nullptr;
  for (auto& [key, registration] : registrations_) {
    const std::string& top = registration->mount().path;
    const bool is_around = IsBelow(path, top);
    if (!is_around || (innermost != nullptr && innermost->mount().path.size() >= top.size())) {
      continue;
    }
    innermost = registration.get();
  }
  return innermost;
}

Error Registry::NotRegistered(const std::string& path) {
  if (is_off_) return Error{ESHUTDOWN, "PPC is switched off on this machine; ppcctl on"};
  std::string where = "no policy is registered on " + path;
  if (const Registration* around = FindAround(path); around != nullptr) {
    const std::string& top = around->mount().path;
    return Error{ENOENT, where + " itself: it lies in " + top + ", which has policy '" +
                             around->choice().name + "'; name that one"};
  }
  return Error{ENOENT, where + "; run ppcctl reg_policy " + path + " POLICY"};
}

Result<Registration*> Registry::FindFor(const Peer& peer, const std::string& path) {
  const std::string normal = NormalPath(path);
  if (peer.is_admin) {
    Result<Registration*> found = Find(path);
    Registration* around = found || found.error().code != ENOENT ? nullptr : FindAround(normal);
    return around == nullptr ? std::move(found) : around;
  }
  if (Registration* innermost = FindAround(normal); innermost != nullptr) return innermost;
  return Error{ENOENT, "no policy is registered on " + normal + " or above it; root does so: " +
                           "ppcctl reg_policy " + normal + " POLICY"};
}

Result<Service*> Registry::FindService(Registration& registration, const std::string& id,
                                       const Peer& peer) {
  Service* service = registration.services().Find(id);
  // Who computes the name of what it runs may be a replica of it.
  if (service != nullptr && !MayTouch(peer, service->owner)) {
    Service* replica = registration.services().FindReplica(id, peer);
    if (replica != nullptr) return replica;
  }
  const std::string name = "service " + id.substr(0, 80);
  const std::string& path = registration.mount().path;
  if (service == nullptr) {
    return Error{ENOENT, name + " was not started on " + path +
                             "; started there: " + registration.services().Names(peer)};
  }
  if (MayTouch(peer, service->owner)) return service;
  return Error{EACCES, name + " on " + path + " is not of control group " + DumpJson(peer.cgroup) +
                           kOnlyIts};
}

Status Registry::CheckStart(Registration& registration, const std::string& id, const Json& body,
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
    if (!IsGroupOfPeer(cgroup, peer)) {
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
                             std::to_string(kStartPeriodNs / kNsPerSec) + " s"};
  }
  return known == nullptr ? CheckRoom(peer) : Ok();
}

Status Registry::CheckRoom(const Peer& peer) const {
  size_t of_group = 0, of_user = 0;
  for (const auto& [key, registration] : registrations_) {
    const Services& services = registration->services();
    of_group +=
        services.Claimed([&peer](const Owner& owner) { return IsOfGroup(owner, peer); }).size();
    of_user +=
        services.Claimed([&peer](const Owner& owner) { return owner.uid == peer.uid; }).size();
  }
  const std::string remedy = " services already; stop those that have ended";
  if (of_group >= kMaxServicesOfGroup) {
    return Error{ENOSPC, "control group " + DumpJson(peer.cgroup) + " has " +
                             std::to_string(of_group) + remedy};
  }
  if (of_user >= kMaxServicesOfUser) {
    return Error{ENOSPC,
                 "user " + std::to_string(peer.uid) + " has " + std::to_string(of_user) + remedy};
  }
  return Ok();
}

Status Registry::CheckRoot(const HeldProcess& root, const Peer& peer) const {
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

void Registry::ShowOwnStatus(const Json& body, const Peer& peer, const Reply& reply) {
  const auto mount = body.find("mount");
  const Result<Registration*> only = mount == body.end() ? Result<Registration*>(nullptr)
                                                         : FindFor(peer, mount->get<std::string>());
  Json mounts = Json::array();
  for (const auto& [key, registration] : registrations_) {
    // A directory that is not registered looks like one that has nothing of the caller's.
    if (!only || (*only != nullptr && *only != registration.get())) continue;
    Json services = registration->services().Describe(peer);
    if (services.empty()) continue;
    mounts.push_back({{"mount", registration->mount().path},
                      {"backend", registration->Backend()},
                      {"policy", registration->choice().name},
                      {"state", registration->ShownState()},
                      {"services", std::move(services)}});
  }
  Json answer = OkAnswer();
  answer["rights"] = "service";
  answer["daemon"] = {{"version", kVersionText},
                      {"uptime_s", (MonotonicNs() - started_ns_) / kNsPerSec},
                      {"template_dir", options_.template_dir}};
  answer["mounts"] = std::move(mounts);
  reply(std::move(answer));
}

void Registry::WatchGroups() {
  if (std::exchange(watches_groups_, true)) return;
  loop_.After(options_.watch_period, [this] {
    watches_groups_ = false;
    if (is_ending_) return;
    bool is_any_left = false;
    // Without a view of any group nothing is known of one.
    const bool sees_groups = cgroups_.Resolve("/").ok();
    for (auto& [key, registration] : registrations_) {
      for (const std::string& id :
           registration->services().Claimed([](const Owner&) { return true; })) {
        const std::string cgroup = registration->services().Find(id)->owner.cgroup;
        const Result<Cgroups::Group> group = cgroups_.Resolve(cgroup);
        if (group || group.error().code != ENOENT || !sees_groups) {
          is_any_left = true;
          continue;
        }
        Log(LogLevel::kInfo, {registration->mount().path, id},
            "control group " + DumpJson(cgroup) + " of service " + id +
                " is gone; service stopped");
        StopService(*registration, id, "exit", [](const Result<Json>&) {});
      }
    }
    if (is_any_left) WatchGroups();
  });
}

}  // namespace ppc::control
