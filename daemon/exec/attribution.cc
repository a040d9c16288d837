// SPDX-License-Identifier: Apache-2.0
#include "daemon/exec/attribution.h"

#include <algorithm>
#include <cerrno>
#include <optional>
#include <string>
#include <utility>

#include "daemon/base/files.h"
#include "daemon/machine/io_neighbours.h"
#include "daemon/machine/proc_info.h"

namespace ppc {
namespace {

constexpr int kMaxGenerations = 64;

using Entry = Members::Entry;

const Entry* ById(const Members& members, const std::string& id) {
  for (const Entry& service : members.services) {
    if (service.id == id) return &service;
  }
  return nullptr;
}

const Entry* ByBinding(const Members& members, int pid, uint64_t start_ns) {
  const auto bound = members.bound.find(pid);
  if (bound == members.bound.end() || !IsSameStart(bound->second.start_ns, start_ns))
    return nullptr;
  return ById(members, bound->second.id);
}

// What is asked of a process for each of many services, once.  None of it waits for the process.
class Facts {
 public:
  Facts(const SysRoots& roots, int pid) : roots_(roots), pid_(pid) {}

  // IDs can be guessed, so another tenant's process must not join by naming one.
  bool MayName(const Membership::Owner& owner) {
    if (!uid_) uid_ = IsInContainer(roots_, pid_) ? std::nullopt : ProcessUid(roots_, pid_);
    if (*uid_ == owner.uid) return true;
    if (!IsSharedGroup(owner.cgroup)) {
      if (!cgroup_) cgroup_ = ProcessCgroup(roots_, pid_);
      if (*cgroup_ && IsBelow(**cgroup_, owner.cgroup)) return true;
    }
    if (owner.network.empty()) return false;
    if (!network_) network_ = ProcessNetwork(roots_, pid_);
    return *network_ == owner.network;
  }

 private:
  const SysRoots& roots_;
  const int pid_;
  std::optional<std::optional<uint32_t>> uid_;  // of a process in no container
  std::optional<std::optional<std::string>> cgroup_;
  std::optional<std::string> network_;
};

// The nearest ancestor that is a root of a service, of the told or of the automatic ones.
const Entry* ByDescent(const SysRoots& roots, const Members& members, int pid, bool is_auto) {
  const auto is_asked = [is_auto](const Entry& one) {
    return one.told.is_auto == is_auto && !one.told.roots.empty();
  };
  if (std::none_of(members.services.begin(), members.services.end(), is_asked)) return nullptr;
  std::optional<int> at = pid;
  for (int i = 0; at && *at > 1 && i < kMaxGenerations; ++i) {
    for (const Entry& service : members.services) {
      if (!is_asked(service)) continue;
      for (const Membership::Root& root : service.told.roots) {
        if (root.pid == *at && IsSameProcess(roots, *at, root.start_ns)) return &service;
      }
    }
    at = ProcessParent(roots, *at);
  }
  return nullptr;
}

// The most specific cgroup that holds the process wins.
const Entry* ByCgroup(const SysRoots& roots, const Members& members, int pid, uint64_t cgroup_id) {
  const Entry* best = nullptr;
  std::optional<std::string> cgroup;
  bool is_read = false;
  for (const Entry& service : members.services) {
    if (service.told.cgroup == nullptr) continue;
    const Cgroup& told = *service.told.cgroup;
    if (told.IsOfEvent(cgroup_id)) return &service;
    if (!std::exchange(is_read, true)) cgroup = ProcessCgroup(roots, pid);
    if (!cgroup || !told.Contains(*cgroup)) continue;
    if (best == nullptr || told.path().size() > best->told.cgroup->path().size()) best = &service;
  }
  return best;
}

Result<Membership::Owner> OwnerIn(const Json& message) {
  const Json owner = message.value("owner", Json::object());
  const Result<std::string> cgroup = JsonString(owner, "cgroup", "");
  if (!cgroup) return cgroup.error();
  const Result<int64_t> uid = JsonInt(owner, "uid", 0);
  if (!uid) return uid.error();
  const Result<std::string> network = JsonString(owner, "network", "");
  if (!network) return network.error();
  return Membership::Owner{*cgroup, static_cast<uint32_t>(*uid), *network};
}

}  // namespace

bool IsSharedGroup(const std::string& cgroup) {
  return cgroup.empty() || cgroup == "/" || cgroup.ends_with(".slice");
}

Result<Membership> MembershipOf(const Json& message, std::shared_ptr<const Cgroup> cgroup,
                                const SysRoots& roots) {
  constexpr int64_t kMost = 0x7fffffff;
  const Result<int64_t> pid = JsonInt(message, "pid", 0);
  if (!pid) return pid.error();
  const Result<bool> by_cgroup = JsonBool(message, "by_cgroup", true);
  if (!by_cgroup) return by_cgroup.error();
  const Result<bool> is_auto = JsonBool(message, "auto", false);
  if (!is_auto) return is_auto.error();
  const Result<Membership::Owner> owner = OwnerIn(message);
  if (!owner) return owner.error();
  Membership told;
  told.is_auto = *is_auto;
  told.owner = *owner;
  if (*by_cgroup) told.cgroup = std::move(cgroup);
  if (*pid == 0) return told;
  const std::optional<uint64_t> start =
      *pid > 0 && *pid <= kMost ? ProcessStartNs(roots, static_cast<int>(*pid)) : std::nullopt;
  if (!start) return Error{ESRCH, "process " + std::to_string(*pid) + " does not exist here"};
  told.roots.push_back({static_cast<int>(*pid), *start});
  told.root_cgroup = UnifiedCgroup(roots, static_cast<int>(*pid));
  return told;
}

Candidates CandidatesOf(const SysRoots& roots, const Members& members, int pid, uint64_t start_ns,
                        uint64_t cgroup_id) {
  if (members.services.empty()) return {};
  if (const Entry* bound = ByBinding(members, pid, start_ns)) return {bound, {}};
  Candidates found;
  found.owner = ByDescent(roots, members, pid, /*is_auto=*/false);
  if (found.owner == nullptr) found.owner = ByCgroup(roots, members, pid, cgroup_id);
  for (const Entry& service : members.services) {
    if (found.owner == nullptr && service.told.is_open()) found.owner = &service;
  }
  if (found.owner == nullptr) found.owner = ByDescent(roots, members, pid, /*is_auto=*/true);
  Facts facts(roots, pid);
  for (const Entry& service : members.services) {
    const bool may_be_named = &service != found.owner && !service.told.is_auto;
    if (may_be_named && facts.MayName(service.told.owner)) found.named.push_back(&service);
  }
  return found;
}

const Members::Entry* OwnerAmong(const SysRoots& roots, const Candidates& candidates, int pid) {
  if (candidates.named.empty()) return candidates.owner;
  const std::optional<std::string> id = ProcessEnv(ProcessEnviron(roots, pid), "PPC_SERVICE_ID");
  for (const Entry* const named : candidates.named) {
    if (id == named->id) return named;
  }
  return candidates.owner;
}

const Members::Entry* OwnerOf(const SysRoots& roots, const Members& members, int pid,
                              uint64_t start_ns, uint64_t cgroup_id) {
  return OwnerAmong(roots, CandidatesOf(roots, members, pid, start_ns, cgroup_id), pid);
}

}  // namespace ppc
