// SPDX-License-Identifier: Apache-2.0
#include "extras/placement/node_look.h"

#include <sys/utsname.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "daemon/machine/host_memory.h"
#include "extras/cache/page_map.h"
#include "extras/plan/needed_bytes.h"
#include "extras/watch/service_view.h"
#include "policies/maio/template/template.h"
#include "tools/ppcctl/model_find.h"

namespace ppc::ctl {
namespace {

namespace fs = std::filesystem;

constexpr const char* kHubPrefix = "models--";
constexpr const char* kTemplateSuffix = ".ppct";
constexpr const char* kPartSuffix = ".part";

std::string NameOf(const std::string& path) {
  const std::string hub = HubDirectoryOf(path);
  if (hub.empty()) return fs::path(path).filename();
  std::string name = fs::path(hub).filename().string().substr(std::string(kHubPrefix).size());
  if (const size_t dashes = name.find("--"); dashes != std::string::npos)
    name.replace(dashes, 2, "/");
  return name;
}

// The models in a registered directory: itself, or directories one level below.
std::map<std::string, std::string> ModelsIn(const std::string& directory) {
  std::map<std::string, std::string> models;  // name by path
  const auto add = [&models](const std::string& path) {
    if (const std::optional<FoundModel> found = ModelAt(path))
      models.emplace(found->path, NameOf(found->path));
  };
  std::error_code error;
  add(directory);
  for (fs::directory_iterator entry(directory, error); !error && entry != fs::directory_iterator();
       entry.increment(error)) {
    std::error_code none;
    if (entry->is_directory(none)) add(entry->path());
  }
  return models;
}

}  // namespace

std::string HostName() {
  utsname name = {};
  return uname(&name) == 0 ? name.nodename : "localhost";
}

NodeLook::NodeLook(std::string name, std::string templates, std::string artifacts)
    : name_(std::move(name)), templates_(std::move(templates)), artifacts_(std::move(artifacts)) {}

void NodeLook::LookAtTemplates() {
  std::map<std::string, Template> there;
  std::error_code error;
  // As maio::TemplatePath lays them out: a directory per prefix of IDs.
  for (fs::recursive_directory_iterator entry(templates_, error);
       !error && entry != fs::recursive_directory_iterator(); entry.increment(error)) {
    const fs::path& path = entry->path();
    if (entry.depth() > 1 || path.extension() != kTemplateSuffix ||
        path.stem().extension() == kPartSuffix)
      continue;
    std::error_code none;
    const fs::file_time_type written = fs::last_write_time(path, none);
    const auto old = known_.find(path.stem());
    if (old != known_.end() && old->second.written == written) {
      there.insert(*old);
      continue;
    }
    maio::Template t;
    std::string problem;
    if (maio::Load(path, &t, &problem) != 0 || t.files.empty()) continue;
    const auto largest =
        std::max_element(t.files.begin(), t.files.end(),
                         [](const auto& a, const auto& b) { return a.size < b.size; });
    there[path.stem()] = {written, largest->path};
  }
  known_ = std::move(there);
}

NodeLook::Readers NodeLook::ReadersIn(const std::string& directory) const {
  Readers readers;
  for (const auto& [id, known] : known_) {
    std::error_code none;
    readers.emplace(fs::weakly_canonical(fs::path(directory) / known.largest_file, none), id);
  }
  return readers;
}

ModelState NodeLook::LookAtModel(const std::string& name, const std::string& path,
                                 const std::string& directory, const Readers& readers) const {
  ModelState model{.name = name, .path = path, .directory = directory};
  const std::vector<std::string> files = ModelFiles(path);
  for (const std::string& file : files) {
    const Result<PageMap> map = ReadPageMap(file, /*wants_device=*/true);
    std::error_code none;
    model.bytes += map ? map->size : fs::file_size(file, none);
    if (!map) continue;
    model.resident += std::min(map->resident, map->size);
    for (const auto& [node, bytes] : map->nodes) model.by_node[node] += bytes;
  }
  for (const std::string& file : files) {
    std::error_code none;
    const auto [first, last] = readers.equal_range(fs::weakly_canonical(file, none));
    for (auto it = first; it != last; ++it) {
      model.has_template = true;
      if (!artifacts_.empty() &&
          fs::is_directory(fs::path(artifacts_) / "bundles" / it->second, none))
        model.has_artifacts = true;
    }
  }
  return model;
}

Result<NodeState> NodeLook::Take(DaemonLink& link) {
  const Result<View> view = LookAtServices(link, "", /*ask_policies=*/true);
  if (!view) return view.error();
  NodeState node{.name = name_};
  LookAtTemplates();
  uint64_t resident = 0;
  for (const auto& [directory, state] : *view) {
    if (state.device_rate > 0)
      node.disk_rates[directory] = static_cast<uint64_t>(state.device_rate);
    const Readers readers = ReadersIn(directory);
    for (const auto& [path, name] : ModelsIn(directory)) {
      node.models.push_back(LookAtModel(name, path, directory, readers));
      resident += node.models.back().resident;
    }
    for (const auto& [id, service] : state.services) {
      if (service.state == "ready") continue;
      const uint64_t done = std::min(service.loaded + service.redundant, service.total);
      node.starts.push_back({id, directory, service.total - done});
    }
  }
  if (const Result<HostMemory> memory = ReadHostMemory(RootsFromEnvironment(), {})) {
    node.memory = memory->available;
    node.free = memory->available - std::min(resident, memory->available);
  }
  return node;
}

}  // namespace ppc::ctl
