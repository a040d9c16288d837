// SPDX-License-Identifier: Apache-2.0
#include "daemon/supervisor/services.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "daemon/base/clock.h"

namespace ppc::control {

bool Service::TakeNumber(const Json& answer) {
  const Result<int64_t> given = JsonInt(answer, "service", number);
  if (!given || *given < 0 || *given == number) return false;
  number = static_cast<uint32_t>(*given);
  message["service"] = number;
  return true;
}

Json Service::Resumption() const {
  Json again = message;
  if (is_new) return again;
  again["resumed"] = true;
  again["ready"] = is_ready;
  if (is_failed) again["failed"] = true;
  return again;
}

Service OwnService(Json message) {
  Service service;
  service.id = message["service_id"].get<std::string>();
  service.message = std::move(message);
  service.owner = Owner{"", geteuid(), /*is_claimed=*/false};
  service.is_pending = false;
  service.is_starting = true;
  service.is_new = true;
  service.started_ns = MonotonicNs();
  return service;
}

Result<uint32_t> Services::NumberFor(const std::string& id) const {
  if (const auto it = services_.find(id); it != services_.end()) return it->second.number;
  if (services_.size() >= kMaxServices) {
    return Error{ENOSPC, "the mount has " + std::to_string(kMaxServices) +
                             " services already; stop those that have ended"};
  }
  // The smallest free number: numbers stay small, and the first service is 0.
  std::vector<bool> is_taken(services_.size() + 1);
  for (const auto& [other, service] : services_)
    if (service.number < is_taken.size()) is_taken[service.number] = true;
  return static_cast<uint32_t>(std::ranges::find(is_taken, false) - is_taken.begin());
}

void Services::Put(Service service) {
  entries_.erase(service.id);
  services_[service.id] = std::move(service);
}

void Services::Remove(const std::string& id) {
  entries_.erase(id);
  services_.erase(id);
}

Service* Services::Find(const std::string& id) {
  const auto it = services_.find(id);
  return it == services_.end() ? nullptr : &it->second;
}

bool Services::BeginAgain(const std::string& id) {
  Service* const service = Find(id);
  if (service == nullptr) return false;
  service->is_ready = false;
  service->started_ns = MonotonicNs();
  return true;
}

Service* Services::FindReplica(const std::string& id, const Peer& peer) {
  for (auto& [own, service] : services_) {
    const Json& name = JsonMember(service.message, "template");
    if (name.is_string() && name == id && MayTouch(peer, service.owner)) return &service;
  }
  return nullptr;
}

Result<Service*> Services::FindFor(const Peer& peer, const std::string& id,
                                   const std::string& directory) {
  Service* service = Find(id);
  // A caller that computes the name of its service may be a replica of it.
  if (service != nullptr && !MayTouch(peer, service->owner)) {
    Service* replica = FindReplica(id, peer);
    if (replica != nullptr) return replica;
  }
  const std::string name = "service " + id.substr(0, 80);
  if (service == nullptr) {
    return Error{ENOENT,
                 name + " was not started on " + directory + "; started there: " + Names(peer)};
  }
  if (MayTouch(peer, service->owner)) return service;
  return Error{EACCES, name + " on " + directory + " is not of control group " +
                           DumpJson(peer.cgroup) +
                           "; only that group, or root on ppcd's admin socket, may"};
}

std::string Services::Names(const Peer& peer) const {
  std::string names;
  for (const auto& [id, service] : services_) {
    if (MayTouch(peer, service.owner)) names += (names.empty() ? "" : ", ") + id;
  }
  return names.empty() ? "none" : names;
}

std::vector<Service*> Services::InOrder() {
  std::vector<Service*> all;
  for (auto& [id, service] : services_) {
    if (!service.is_pending) all.push_back(&service);
  }
  std::sort(all.begin(), all.end(),
            [](const Service* a, const Service* b) { return a->number < b->number; });
  return all;
}

std::vector<std::string> Services::Claimed(
    const std::function<bool(const Owner&)>& is_counted) const {
  std::vector<std::string> ids;
  for (const auto& [id, service] : services_) {
    if (service.owner.is_claimed && is_counted(service.owner)) ids.push_back(id);
  }
  return ids;
}

Json Services::Describe(const Peer& peer) const {
  Json list = Json::array();
  for (const auto& [id, service] : services_) {
    if (!MayTouch(peer, service.owner)) continue;
    Json entry{{"service_id", id},
               {"service", service.number},
               {"state", service.is_failed                           ? "awaited"
                         : service.is_pending || service.is_starting ? "starting"
                         : service.is_ready                          ? "ready"
                                                                     : "started"}};
    for (const char* key : {"template", "xpus", "workers", "node", "nodes", "cgroup", "params"}) {
      if (service.message.contains(key)) entry[key] = service.message[key];
    }
    if (service.root_pid != 0) entry["pid"] = service.root_pid;
    list.push_back(std::move(entry));
  }
  return list;
}

namespace {

std::string EntryOf(const Service& service) {
  return DumpJson({{"message", service.message},
                   {"ready", service.is_ready},
                   {"pid", service.root_pid},
                   {"pid_start", service.pid_start_ns},
                   {"owner",
                    {{"cgroup", service.owner.cgroup},
                     {"uid", service.owner.uid},
                     {"claimed", service.owner.is_claimed},
                     {"inode", service.owner.group_inode}}}});
}

// The owner, root alone if it cannot be read.
Owner OwnerIn(const Json& entry) {
  const auto it = entry.find("owner");
  if (it == entry.end() || !it->is_object()) return {};
  const Result<std::string> cgroup = JsonString(*it, "cgroup", "");
  const Result<int64_t> uid = JsonInt(*it, "uid", 0);
  const Result<bool> is_claimed = JsonBool(*it, "claimed", false);
  const Result<int64_t> inode = JsonInt(*it, "inode", 0);
  if (!cgroup || !uid || !is_claimed || !inode) return {};
  return Owner{*cgroup, static_cast<uid_t>(*uid), *is_claimed, static_cast<uint64_t>(*inode)};
}

}  // namespace

std::string Services::Save(const std::string& changed) const {
  std::string list = "[";
  for (const auto& [id, service] : services_) {
    // Not saved: the timer that bounds the wait for its next start ends with this process.
    if (service.is_pending || service.is_failed) continue;
    std::string& entry = entries_[id];
    if (changed.empty() || id == changed || entry.empty()) entry = EntryOf(service);
    if (list.size() > 1) list += ',';
    list += entry;
  }
  return list + "]";
}

void Services::Restore(const Json& saved) {
  if (!saved.is_array()) return;
  for (const Json& entry : saved) {
    if (!entry.is_object() || !entry.contains("message") || !entry["message"].is_object()) continue;
    Service service;
    service.message = entry["message"];
    const Result<std::string> id = JsonString(service.message, "service_id", "");
    const Result<int64_t> number = JsonInt(service.message, "service", -1);
    const Result<bool> is_ready = JsonBool(entry, "ready", false);
    const Result<int64_t> pid = JsonInt(entry, "pid", 0);
    const Result<int64_t> start = JsonInt(entry, "pid_start", 0);
    if (!id || id->empty() || !number || *number < 0 || !is_ready || !pid || !start) continue;
    service.id = *id;
    service.number = static_cast<uint32_t>(*number);
    service.is_pending = false;
    service.is_ready = *is_ready;
    service.root_pid = static_cast<pid_t>(*pid);
    service.pid_start_ns = static_cast<uint64_t>(*start);
    service.owner = OwnerIn(entry);
    Put(std::move(service));
  }
}

}  // namespace ppc::control
