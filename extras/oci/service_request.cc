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
#include <vector>

#include "daemon/machine/proc_info.h"
#include "daemon/wire/service_id.h"
#include "extras/oci/container_paths.h"
#include "tools/ppcctl/command_words.h"
#include "tools/ppcctl/model_service.h"
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

namespace fs = std::filesystem;

std::string Variable(const Container& container, const std::string& name) {
  const auto it = container.environment.find(name);
  return it == container.environment.end() ? "" : it->second;
}

// In the container.
std::string HubCache(const Container& container) {
  for (const char* name : {"HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE"}) {
    if (const std::string cache = Variable(container, name); !cache.empty()) return cache;
  }
  if (const std::string home = Variable(container, "HF_HOME"); !home.empty()) return home + "/hub";
  std::string cache = Variable(container, "XDG_CACHE_HOME");
  const std::string home = Variable(container, "HOME");
  if (cache.empty()) cache = (home.empty() ? "/root" : home) + "/.cache";
  return cache + "/huggingface/hub";
}

bool Exists(const std::string& path) {
  std::error_code error;
  return fs::exists(fs::symlink_status(path, error));
}

// The host's name of a path in the container; other words are unchanged.
std::string Translate(const std::string& word, const ContainerPaths& paths) {
  if (word.empty() || word[0] == '-') return word;
  const Result<std::string> host = paths.ToHost(word);
  if (host && Exists(*host)) return *host;
  return word[0] == '/' ? "" : word;
}

std::vector<std::string> TranslateAll(const std::vector<std::string>& words,
                                      const ContainerPaths& paths) {
  std::vector<std::string> translated;
  for (const std::string& word : words) {
    const size_t equals = word.find('=');
    translated.push_back(equals == std::string::npos
                             ? Translate(word, paths)
                             : word.substr(0, equals + 1) +
                                   Translate(word.substr(equals + 1), paths));
  }
  return translated;
}

// The host's resolution of the path must lead to the container's file.
Status CheckInside(const std::string& path, const ContainerPaths& paths) {
  std::error_code error;
  const fs::path real = fs::canonical(path, error);
  if (!error && !paths.ToContainer(real).empty()) return Ok();
  return Error{EXDEV, path + " leads out of the container"};
}

Status CheckModel(const ctl::FoundModel& model, const ContainerPaths& paths) {
  for (const std::string& path : {model.path, model.directory}) {
    if (Status status = CheckInside(path, paths); !status) return status;
  }
  std::error_code error;
  for (fs::directory_iterator entry(model.path, error); !error && entry != fs::directory_iterator();
       entry.increment(error)) {
    if (!entry->is_symlink(error)) continue;
    if (Status status = CheckInside(entry->path(), paths); !status) return status;
  }
  return Ok();
}

// ppc.model names a path, which is the model whatever it contains.
std::optional<ctl::FoundModel> ModelAtPath(const std::string& host) {
  if (std::optional<ctl::FoundModel> model = ctl::ModelAt(host)) return model;
  std::error_code error;
  if (fs::is_directory(host, error)) return ctl::FoundModel{host, host};
  if (fs::is_regular_file(host, error)) return ctl::FoundModel{host, fs::path(host).parent_path()};
  return std::nullopt;
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
  // ppcd takes a path too, and would run its code.
  if (container.Annotation("ppc.policy").find('/') != std::string::npos) {
    return Error{EINVAL, "ppc.policy is a policy's name, not a path"};
  }
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

Result<ctl::FoundModel> FindContainerModel(const Container& container,
                                           const ContainerPaths& paths) {
  const std::string told = container.Annotation("ppc.model");
  const Result<std::string> hub = paths.ToHost(HubCache(container));
  std::optional<ctl::FoundModel> model;
  if (told.starts_with('/')) {
    const Result<std::string> host = paths.ToHost(told);
    if (!host) return host.error();
    model = ModelAtPath(*host);
  } else {
    const std::vector<std::string> words =
        told.empty() ? TranslateAll(ctl::WordsOf(container.command), paths)
                     : std::vector<std::string>{"", "--model", told};
    model = ctl::FindModel(words, hub ? *hub : "");
  }
  if (!model && !told.empty()) {
    return Error{ENOENT, "ppc.model: there is no " + told + " in the container"};
  }
  if (!model) {
    return Error{ENOENT, "the command names no model; name it by the annotation ppc.model"};
  }
  if (Status status = CheckModel(*model, paths); !status) return status.error();
  return *model;
}

Json ContainerParams(const Container& container, const ContainerPaths& paths,
                     const ctl::FoundModel& model) {
  Json params = ctl::ServiceParams(model.path, ctl::WordsOf(container.command));
  params["model"] = paths.ToContainer(model.path);
  params.erase("model_path");
  return params;
}

}  // namespace ppc::oci
