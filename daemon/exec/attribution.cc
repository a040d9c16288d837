// SPDX-License-Identifier: Apache-2.0
#include "daemon/exec/attribution.h"

#include <algorithm>
#include <cerrno>
#include <optional>
#include <string>
#include <utility>

#include "daemon/machine/proc_info.h"

namespace ppc {
namespace {

constexpr int kMaxGenerations = 64;

using One = Members::One;

const One* ById(const Members& members, const std::string& id) {
  for (const One& service : members.services) {
    if (service.id == id) return &service;
  }
  return nullptr;
}

const One* ByBinding(const Members& members, int pid, uint64_t start_ns) {
  const auto bound = members.bound.find(pid);
  if (bound == members.bound.end() || !IsSameStart(bound->second.start_ns, start_ns))
    return nullptr;
  return ById(members, bound->second.id);
}

const One* ByEnvironment(const SysRoots& roots, const Members& members, int pid) {
  const std::optional<std::string> id = ProcessEnv(ProcessEnviron(roots, pid), "PPC_SERVICE_ID");
  return id ? ById(members, *id) : nullptr;
}

// The nearest ancestor that is a service's process.
const One* ByDescent(const SysRoots& roots, const Members& members, int pid) {
  const bool has_roots = std::any_of(members.services.begin(), members.services.end(),
                                     [](const One& one) { return one.told.root_pid != 0; });
  if (!has_roots) return nullptr;
  std::optional<int> at = pid;
  for (int i = 0; at && *at > 1 && i < kMaxGenerations; ++i) {
    for (const One& service : members.services) {
      if (service.told.root_pid != *at) continue;
      if (IsSameProcess(roots, *at, service.told.root_start_ns)) return &service;
    }
    at = ProcessParent(roots, *at);
  }
  return nullptr;
}

// The most specific cgroup that holds the process wins.
const One* ByCgroup(const SysRoots& roots, const Members& members, int pid, uint64_t cgroup_id) {
  const One* best = nullptr;
  std::optional<std::string> cgroup;
  bool is_read = false;
  for (const One& service : members.services) {
    if (service.told.cgroup == nullptr) continue;
    const Cgroup& told = *service.told.cgroup;
    if (told.IsOfEvent(cgroup_id)) return &service;
    if (!std::exchange(is_read, true)) cgroup = ProcessCgroup(roots, pid);
    if (!cgroup || !told.Contains(*cgroup)) continue;
    if (best == nullptr || told.path().size() > best->told.cgroup->path().size()) best = &service;
  }
  return best;
}

}  // namespace

Result<Membership> MembershipOf(const Json& message, std::shared_ptr<const Cgroup> cgroup,
                                const SysRoots& roots) {
  constexpr int64_t kMost = 0x7fffffff;
  const Result<int64_t> pid = JsonInt(message, "pid", 0);
  if (!pid) return pid.error();
  const Result<bool> by_cgroup = JsonBool(message, "by_cgroup", true);
  if (!by_cgroup) return by_cgroup.error();
  Membership told;
  if (*by_cgroup) told.cgroup = std::move(cgroup);
  if (*pid == 0) return told;
  const std::optional<uint64_t> start =
      *pid > 0 && *pid <= kMost ? ProcessStartNs(roots, static_cast<int>(*pid)) : std::nullopt;
  if (!start) return Error{ESRCH, "process " + std::to_string(*pid) + " does not exist here"};
  told.root_pid = static_cast<int>(*pid);
  told.root_start_ns = *start;
  return told;
}

const Members::One* OwnerOf(const SysRoots& roots, const Members& members, int pid,
                            uint64_t start_ns, uint64_t cgroup_id) {
  if (members.services.empty()) return nullptr;
  if (const One* bound = ByBinding(members, pid, start_ns)) return bound;
  if (const One* named = ByEnvironment(roots, members, pid)) return named;
  if (const One* ancestor = ByDescent(roots, members, pid)) return ancestor;
  if (const One* holder = ByCgroup(roots, members, pid, cgroup_id)) return holder;
  for (const One& service : members.services) {
    if (service.told.is_open()) return &service;
  }
  return nullptr;
}

}  // namespace ppc
