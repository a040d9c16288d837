// SPDX-License-Identifier: Apache-2.0
#include "daemon/exec/attribution.h"

#include <cerrno>
#include <optional>
#include <string>
#include <utility>

#include "daemon/exec/service_table.h"
#include "daemon/machine/proc_info.h"

namespace ppc {
namespace {

constexpr int kMaxGenerations = 64;

Service* ByEnvironment(const SysRoots& roots, std::span<const std::unique_ptr<Service>> services,
                       int pid) {
  const std::optional<std::string> id = ProcessEnv(ProcessEnviron(roots, pid), "PPC_SERVICE_ID");
  if (!id) return nullptr;
  for (const auto& service : services) {
    if (service != nullptr && service->id == *id) return service.get();
  }
  return nullptr;
}

// The nearest ancestor that is a service's process.
Service* ByDescent(const SysRoots& roots, std::span<const std::unique_ptr<Service>> services,
                   int pid) {
  bool has_roots = false;
  for (const auto& service : services)
    has_roots |= service != nullptr && service->told.root_pid != 0;
  if (!has_roots) return nullptr;
  std::optional<int> at = pid;
  for (int i = 0; at && *at > 1 && i < kMaxGenerations; ++i) {
    for (const auto& service : services) {
      if (service == nullptr || service->told.root_pid != *at) continue;
      if (IsSameProcess(roots, *at, service->told.root_start_ns)) return service.get();
    }
    at = ProcessParent(roots, *at);
  }
  return nullptr;
}

// The most specific cgroup that holds the process wins.
Service* ByCgroup(const SysRoots& roots, std::span<const std::unique_ptr<Service>> services,
                  int pid, uint64_t cgroup_id) {
  Service* best = nullptr;
  std::optional<std::string> cgroup;
  bool is_read = false;
  for (const auto& service : services) {
    if (service == nullptr || service->told.cgroup == nullptr) continue;
    const Cgroup& told = *service->told.cgroup;
    if (told.IsOfEvent(cgroup_id)) return service.get();
    if (!std::exchange(is_read, true)) cgroup = ProcessCgroup(roots, pid);
    if (!cgroup || !told.Contains(*cgroup)) continue;
    if (best == nullptr || told.path().size() > best->told.cgroup->path().size())
      best = service.get();
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

Service* OwnerOf(const SysRoots& roots, std::span<const std::unique_ptr<Service>> services, int pid,
                 uint64_t cgroup_id) {
  if (Service* named = ByEnvironment(roots, services, pid)) return named;
  if (Service* ancestor = ByDescent(roots, services, pid)) return ancestor;
  if (Service* holder = ByCgroup(roots, services, pid, cgroup_id)) return holder;
  for (const auto& service : services) {
    if (service != nullptr && service->told.is_open()) return service.get();
  }
  return nullptr;
}

}  // namespace ppc
