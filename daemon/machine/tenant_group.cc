// SPDX-License-Identifier: Apache-2.0
#include "daemon/machine/tenant_group.h"

#include <algorithm>
#include <array>
#include <string_view>

namespace ppc {
namespace {

// Groups that contain groups of many tenants.
bool IsParent(std::string_view name) {
  constexpr std::array<std::string_view, 11> kEngines = {
      "kubepods", "burstable",     "besteffort",     "kubelet",           "docker", "lxc", "ecs",
      "machine",  "libpod_parent", "condor.service", "containerd.service"};
  const bool is_of_kubernetes = name.starts_with("kubepods") || name.starts_with("kubelet");
  const bool is_pod = is_of_kubernetes && name.find("-pod") != std::string_view::npos;
  return (name.ends_with(".slice") && !is_pod) || name.ends_with("slurmstepd.scope") ||
         std::ranges::find(kEngines, name) != kEngines.end();
}

// A top-level name without a known suffix may be an unknown container engine's.
bool IsUnit(std::string_view name) {
  return name.ends_with(".slice") || name.ends_with(".scope") || name.ends_with(".service") ||
         name.starts_with("lxc.payload");
}

}  // namespace

std::string TenantGroup(const std::string& cgroup) {
  for (size_t at = 0; at < cgroup.size();) {
    const size_t end = std::min(cgroup.find('/', at + 1), cgroup.size());
    const std::string_view name = std::string_view(cgroup).substr(at + 1, end - at - 1);
    if (!name.empty() && !IsParent(name)) {
      const bool may_be_parent = at == 0 && !IsUnit(name) && end < cgroup.size();
      return cgroup.substr(0, may_be_parent ? cgroup.find('/', end + 1) : end);
    }
    at = end;
  }
  return "";
}

}  // namespace ppc
