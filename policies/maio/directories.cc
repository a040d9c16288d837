// SPDX-License-Identifier: Apache-2.0
#include "policies/maio/directories.h"

#include <algorithm>
#include <atomic>
#include <system_error>
#include <thread>
#include <unordered_set>

#include "policies/maio/base/tuning.h"

namespace ppc::maio {
namespace {

using Names = std::unordered_set<std::string>;

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
  const auto small = std::ranges::count(t.files, FileKind::kSmall, &TemplateFile::kind);
  std::vector<std::string> found;
  if (static_cast<size_t>(small) < kPackageFiles) return found;
  Names seen;
  for (const TemplateFile& file : t.files) {
    const size_t slash = file.path.rfind('/');
    if (file.kind != FileKind::kSmall || slash == std::string::npos) continue;
    std::string path = file.path.substr(0, slash);
    if (seen.insert(path).second) found.push_back(std::move(path));
  }
  return found;
}

void ReadDirectories(const ppc_context* context, const std::vector<std::string>& directories) {
  const Names known(directories.begin(), directories.end());
  std::atomic<size_t> next{0};
  const auto read = [&] {
    for (size_t i = next++; i < directories.size(); i = next++) {
      for (const std::string& name : List(context, directories[i])) {
        const std::string path = directories[i] + "/" + name;
        if (!known.contains(path)) (void)List(context, path);
      }
    }
  };
  std::vector<std::jthread> others;
  try {
    const size_t threads = std::min(kLookUpsAtOnce, directories.size() / 16);
    for (size_t i = 1; i < threads; i++) others.emplace_back(read);
  } catch (const std::system_error&) {
    // No more threads: those that there are will do.
  }
  read();
}

}  // namespace ppc::maio
