// SPDX-License-Identifier: Apache-2.0
#include "extras/oci/service_request.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <iterator>
#include <optional>
#include <sstream>
#include <system_error>
#include <utility>

#include "daemon/machine/proc_info.h"
#include "daemon/wire/service_id.h"
#include "extras/oci/container_model.h"
#include "extras/oci/container_paths.h"
#include "tools/ppcctl/spec.h"

namespace ppc::oci {
namespace {

// Enough for a policy that has its template at hand; the policy does the rest while the container
// starts.
constexpr int kPolicyWaitMs = 20;

constexpr const char* kKnown[] = {"ppc.enable",    "ppc.model",        "ppc.service-id",
                                  "ppc.workers",   "ppc.xpus",         "ppc.node",
                                  "ppc.nodes",     "ppc.first-worker", "ppc.policy",
                                  "ppc.container", "ppc.required",     "ppc.params"};

Status CheckNames(const Container& container) {
  for (const auto& [key, value] : container.annotations) {
    if (!key.starts_with("ppc.")) continue;
    if (std::find(std::begin(kKnown), std::end(kKnown), key) != std::end(kKnown)) continue;
    return Error{EINVAL,
                 "there is no annotation " + key + "; docs/integrate/containers.md lists them"};
  }
  return Ok();
}

Status AddNumbers(const Container& container, Json& spec) {
  for (const auto& [key, member] :
       {std::pair{"ppc.workers", "workers"}, std::pair{"ppc.node", "node"},
        std::pair{"ppc.nodes", "nodes"}, std::pair{"ppc.first-worker", "first_worker"}}) {
    const std::string text = container.Annotation(key);
    if (text.empty()) continue;
    const Result<int64_t> number = ctl::ReadWhole(key, text);
    if (!number) return number.error();
    spec[member] = *number;
  }
  std::istringstream parts(container.Annotation("ppc.xpus"));
  for (std::string part; std::getline(parts, part, ',');) {
    const Result<int64_t> index = ctl::ReadWhole("ppc.xpus", part);
    if (!index) return index.error();
    spec["xpus"].push_back(*index);
  }
  return Ok();
}

// Sets the members and the payer.  A container in a shared cgroup, which also contains the hook, is
// identified by its first process only.
void AddMembers(const Container& container, const SysRoots& roots, Json& spec) {
  spec["pid"] = container.pid;
  const std::optional<std::string> group = ProcessCgroup(roots, container.pid);
  const std::string own = ProcessCgroup(roots, getpid()).value_or("");
  if (!group || *group == "/" || (own + "/").starts_with(*group + "/")) return;
  spec["cgroup"] = *group;
}

}  // namespace

bool IsLeftAlone(const Container& container) {
  for (const char* key :
       {"io.kubernetes.cri.container-type", "io.kubernetes.cri-o.ContainerType"}) {
    if (container.Annotation(key) == "sandbox") return true;
  }
  if (container.Annotation("ppc.enable") == "false") return true;
  const std::string wanted = container.Annotation("ppc.container");
  if (wanted.empty()) return false;
  for (const char* key : {"io.kubernetes.cri.container-name", "io.kubernetes.container.name"}) {
    const std::string name = container.Annotation(key);
    if (!name.empty()) return name != wanted;
  }
  return false;
}

Result<ctl::ServiceRequest> RequestOf(const Container& container, const SysRoots& roots) {
  if (Status status = CheckNames(container); !status) return status.error();
  if (container.pid == 0) return Error{ESRCH, "the container's state names no process"};
  const ContainerPaths paths(container);
  const Result<ctl::FoundModel> model = FindContainerModel(container, paths);
  if (!model) return model.error();
  Json params = ContainerParams(container, paths, *model);
  if (const std::string more = container.Annotation("ppc.params"); !more.empty()) {
    const Result<Json> told = ParseJsonObject(more, "ppc.params");
    if (!told) return told.error();
    params.update(*told);
  }
  const Result<control::ServiceName> name = control::MakeServiceName(params);
  if (!name) return name.error();
  const std::string told_id = container.Annotation("ppc.service-id");
  if (Status status = control::CheckServiceId(told_id.empty() ? name->id : told_id); !status) {
    return Error{EINVAL, "ppc.service-id: " + status.error().message};
  }
  ctl::ServiceRequest request;
  request.directory = model->directory;
  request.policy = container.Annotation("ppc.policy");
  // For the policy to find the headers; not a part of the name.
  std::error_code error;
  params["model_path"] = std::filesystem::is_regular_file(model->path, error)
                             ? std::filesystem::path(model->path).parent_path().string()
                             : model->path;
  request.spec = {{"op", "service_start"},
                  {"service_id", told_id.empty() ? name->id : told_id},
                  {"params", params},
                  {"wait_ms", kPolicyWaitMs}};
  if (Status status = AddNumbers(container, request.spec); !status) return status.error();
  AddMembers(container, roots, request.spec);
  return request;
}

}  // namespace ppc::oci
