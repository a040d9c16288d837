// SPDX-License-Identifier: Apache-2.0
#include "policies/maio/directories.h"

#include <cstddef>
#include <unordered_set>

#include "policies/maio/base/side_by_side.h"
#include "policies/maio/base/tuning.h"

namespace ppc::maio {
namespace {

using Names = std::unordered_set<std::string>;

// Of the files' paths each once, in their order; "" not.
std::vector<std::string> DirectoriesOf(std::span<const std::string> paths) {
  std::vector<std::string> found;
  Names seen;
  for (const std::string& path : paths) {
    const size_t slash = path.rfind('/');
    if (slash == std::string::npos || !seen.insert(path.substr(0, slash)).second) continue;
    found.push_back(path.substr(0, slash));
  }
  return found;
}

// The directories in one.
std::vector<std::string> List(const ppc_context* context, const std::string& path) {
  std::vector<std::string> inside;
  const auto add = [](void* arg, const char* name, char kind) {
    if (kind == 'd') static_cast<std::vector<std::string>*>(arg)->emplace_back(name);
    return 0;
  };
  if (context->list_dir(context, path.c_str(), add, &inside) != 0) inside.clear();
  return inside;
}

}  // namespace

std::vector<std::string> SmallDirectories(const Template& t) {
  std::vector<std::string> paths;
  for (const TemplateFile& file : t.files) {
    if (file.kind == FileKind::kSmall) paths.push_back(file.path);
  }
  if (paths.size() < kPackageFiles) return {};
  return DirectoriesOf(paths);
}

std::vector<ppc_file_info> LookUp(const ppc_context* context, std::span<const std::string> paths) {
  // Of one directory the first look-up would keep all others waiting.
  if (paths.size() >= kPackageFiles / 2) {
    const std::vector<std::string> directories = DirectoriesOf(paths);
    SideBySide(directories.size(), [&](size_t i) { (void)List(context, directories[i]); });
  }
  std::vector<ppc_file_info> infos(paths.size());
  SideBySide(paths.size(), [&](size_t i) {
    if (context->file_info(context, paths[i].c_str(), &infos[i]) != 0) infos[i] = {};
  });
  return infos;
}

void ReadDirectories(const ppc_context* context, const std::vector<std::string>& directories) {
  const Names known(directories.begin(), directories.end());
  SideBySide(directories.size(), [&](size_t i) {
    for (const std::string& name : List(context, directories[i])) {
      const std::string path = directories[i] + "/" + name;
      if (!known.contains(path)) (void)List(context, path);
    }
  });
}

}  // namespace ppc::maio
