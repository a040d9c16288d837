// SPDX-License-Identifier: Apache-2.0
// Causes in a directory, its policy and its files that keep a start from being faster.
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <map>
#include <system_error>

#include "daemon/backend/file_cache.h"
#include "daemon/base/files.h"
#include "daemon/base/unique_fd.h"
#include "daemon/machine/mount_table.h"
#include "extras/doctor/checks.h"
#include "tools/ppcctl/model_find.h"
#include "tools/ppcctl/text.h"

namespace ppc::ctl {
namespace {

namespace fs = std::filesystem;

constexpr double kCachedShare = 0.95;

bool IsBelowAny(const std::string& path, const std::vector<std::string>& directories) {
  return std::any_of(directories.begin(), directories.end(),
                     [&](const std::string& directory) { return IsBelow(path, directory); });
}

// As at the registration.
std::string Registration(const DirectorySnapshot& dir) {
  std::string command =
      "ppcctl reg_policy " + ShellWord(dir.parent) + " " + ShellWord(dir.mount.value("policy", ""));
  if (dir.mount.value("backend", "") == "poll") command += " --backend poll";
  const Json& config = JsonMember(dir.mount, "config");
  if (!config.empty()) command += " " + ShellWord(DumpJson(config));
  return command;
}

void CheckPolicy(const DirectorySnapshot& dir, Findings* out) {
  const std::string directory = dir.parent;
  const std::string state = dir.mount.value("state", "");
  const std::string file = dir.mount.value("policy_path", "");
  const int runner = dir.mount.value("pid", 0);
  if (!file.empty() && access(file.c_str(), F_OK) != 0) {
    out->push_back({"policy-missing", directory,
                    "its policy's file " + file +
                        " is gone; the next start of its runner would fail; put it back or take "
                        "the policy off",
                    "ppcctl rm_policy " + ShellWord(directory), true});
  } else if (state == "failed") {
    out->push_back({"policy-failed", directory,
                    "policy '" + dir.mount.value("policy", "") +
                        "' was given up: " + dir.mount.value("last_error", ""),
                    "ppcctl rm_policy " + ShellWord(directory) + " && " + Registration(dir), true});
  }
  const Result<std::string> status = ReadFile("/proc/" + std::to_string(runner) + "/status");
  if (runner > 0 && status && status->find("State:\tT") != std::string::npos) {
    out->push_back({"runner-stopped", directory,
                    "its runner, process " + std::to_string(runner) + ", is stopped",
                    "kill -CONT " + std::to_string(runner), true});
  }
}

// Files that are read through a link outside of the directory, where no policy sees them.
void CheckLinks(const SystemSnapshot& snapshot, const DirectorySnapshot& dir, Findings* out) {
  constexpr size_t kMostEntries = 100'000;
  std::vector<std::string> inside = snapshot.registered;
  inside.push_back(dir.path);
  std::map<std::string, std::string> links;  // the directory of the target -> a link to it
  std::error_code error;
  size_t entries = 0;
  for (fs::recursive_directory_iterator entry(dir.path,
                                              fs::directory_options::skip_permission_denied, error);
       !error && entry != fs::recursive_directory_iterator() && ++entries < kMostEntries;
       entry.increment(error)) {
    std::error_code gone;
    if (!entry->is_symlink(gone)) continue;
    const fs::path target = fs::canonical(entry->path(), gone);
    if (gone || IsBelowAny(target, inside)) continue;
    // Only models: other files beside them are small.
    const bool is_model = IsModelFile(entry->path()) || ModelAt(target);
    if (!is_model) continue;
    const bool is_directory = fs::is_directory(target, gone);
    links[is_directory ? target : target.parent_path()] = entry->path();
  }
  for (const auto& [target, link] : links) {
    out->push_back({"link-leaves", link, "it leads to " + target + ", which has no policy",
                    "ppcctl reg_policy " + ShellWord(target) + " maio", true});
  }
}

void CheckFile(const std::string& file, uint64_t* bytes, uint64_t* resident, Findings* out) {
  const UniqueFd fd(open(file.c_str(), O_RDONLY | O_CLOEXEC));
  std::error_code error;
  const uintmax_t size = fs::file_size(file, error);
  if (!fd.IsValid() || error) return;
  *bytes += size;
  if (const Result<uint64_t> cached = CachedBytes(fd.Get(), 0, size)) {
    *resident += std::min<uint64_t>(*cached, size);
  }
  const Result<uint64_t> dirty = DirtyBytes(fd.Get(), 0, size);
  if (!dirty || *dirty == 0) return;
  out->push_back(
      {"dirty", file,
       HumanBytes(*dirty) + " of it are not written to the disk yet and cannot be evicted",
       "sync " + ShellWord(file), true});
}

bool IsStarting(const DirectorySnapshot& dir) {
  const Json& services = JsonMember(dir.mount, "services");
  return std::any_of(services.begin(), services.end(),
                     [](const Json& service) { return service.value("state", "") == "started"; });
}

// Reads one page of the file and checks whether it stays cached.
bool GoesPastPageCache(const std::string& file) {
  const UniqueFd fd(open(file.c_str(), O_RDONLY | O_CLOEXEC));
  std::array<char, 4096> page{};
  if (!fd.IsValid() || pread(fd.Get(), page.data(), page.size(), 0) <= 0) return false;
  const Result<uint64_t> cached = CachedBytes(fd.Get(), 0, page.size());
  return cached && *cached == 0;
}

}  // namespace

void CheckDirectory(const SystemSnapshot& snapshot, const DirectorySnapshot& dir, Findings* out) {
  if (dir.parent.empty()) {
    // Without ppcd, or with it off, nothing is registered; CheckDaemon reports that.
    if (snapshot.daemon_error == 0 && !snapshot.daemon.value("off", false)) {
      out->push_back({"not-registered", dir.path, "no policy looks after it",
                      "ppcctl reg_policy " + ShellWord(dir.path) + " maio", true});
    }
  } else {
    CheckPolicy(dir, out);
  }
  CheckLinks(snapshot, dir, out);
  const std::vector<MountEntry> table = ReadMountTable(snapshot.roots);
  const MountEntry* mount = FindMount(table, dir.path);
  const std::string type = mount == nullptr ? "" : mount->type;
  if (type.starts_with("fuse") && type != "fuseblk" && !dir.model_files.empty() &&
      GoesPastPageCache(dir.model_files.front())) {
    out->push_back(
        {"past-page-cache", dir.path,
         type + " on " + mount->point +
             " keeps no pages (its server asks for direct_io): nothing can be prefetched",
         "mount it without direct_io", true});
  }
  uint64_t bytes = 0;
  uint64_t resident = 0;
  for (const std::string& file : dir.model_files) CheckFile(file, &bytes, &resident, out);
  // While a service starts, its policy has just loaded the files.
  if (bytes > 0 && !IsStarting(dir) &&
      static_cast<double>(resident) >= kCachedShare * static_cast<double>(bytes)) {
    out->push_back({"cached", dir.path,
                    HumanBytes(resident) + " of " + HumanBytes(bytes) +
                        " of models are in memory already: a start has nothing to wait for",
                    "ppcctl drop " + ShellWord(dir.path), false});
  }
}

}  // namespace ppc::ctl
