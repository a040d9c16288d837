// SPDX-License-Identifier: Apache-2.0
#include "policies/maio/follow/directories.h"

#include <cerrno>
#include <chrono>
#include <cstddef>
#include <numeric>
#include <thread>
#include <unordered_set>
#include <utility>

#include "policies/maio/base/parallel_for.h"
#include "policies/maio/base/tuning.h"

namespace ppc::maio {
namespace {

using Names = std::unordered_set<std::string>;

// Of a larger directory the rest is left to its readers.
constexpr size_t kMostListed = 4096;
// A disk that is busy answers in the end; one that hangs does not.
constexpr int kLateTries = 10;
constexpr std::chrono::milliseconds kLatePause(100);

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
  size_t entries = 0;
  std::pair<std::vector<std::string>*, size_t*> out(&inside, &entries);
  const auto add = [](void* arg, const char* name, char kind) {
    auto [list, count] = *static_cast<decltype(out)*>(arg);
    if (kind == 'd') list->emplace_back(name);
    return ++*count < kMostListed ? 0 : 1;
  };
  if (context->list_dir(context, path.c_str(), add, &out) != 0) inside.clear();
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

std::vector<FileLookup> LookUp(const ppc_context* context, std::span<const std::string> paths) {
  // Of one directory the first look-up would keep all others waiting.
  if (paths.size() >= kPackageFiles / 2) {
    const std::vector<std::string> directories = DirectoriesOf(paths);
    ParallelFor(directories.size(), [&](size_t i) { (void)List(context, directories[i]); });
  }
  std::vector<FileLookup> found(paths.size());
  std::vector<size_t> asked(paths.size());
  std::iota(asked.begin(), asked.end(), 0);
  for (int tries = 0; !asked.empty() && tries < kLateTries; tries++) {
    if (tries != 0) std::this_thread::sleep_for(kLatePause);
    ParallelFor(asked.size(), [&](size_t i) {
      FileLookup& one = found[asked[i]];
      const int rc = context->file_info(context, paths[asked[i]].c_str(), &one.info);
      if (rc != 0) one.info = {};
      one.is_gone = rc != 0 && rc != -ETIMEDOUT;
    });
    std::erase_if(asked, [&](size_t i) { return found[i].info.file != 0 || found[i].is_gone; });
  }
  return found;
}

void ReadDirectories(const ppc_context* context, const std::vector<std::string>& directories) {
  const Names known(directories.begin(), directories.end());
  ParallelFor(directories.size(), [&](size_t i) {
    for (const std::string& name : List(context, directories[i])) {
      const std::string path = directories[i] + "/" + name;
      if (!known.contains(path)) (void)List(context, path);
    }
  });
}

}  // namespace ppc::maio
