// SPDX-License-Identifier: Apache-2.0
#include "extras/learnt_models/open_models.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <sstream>
#include <system_error>
#include <vector>

#include "daemon/base/files.h"
#include "daemon/machine/proc_info.h"
#include "tools/ppcctl/model_find.h"

namespace ppc::ctl {
namespace {

namespace fs = std::filesystem;
using std::chrono::duration_cast;
using std::chrono::milliseconds;
using std::chrono::steady_clock;

// Loading begins soon after the start, and a small model is read within a moment; but compiling
// and downloading may come before.
constexpr milliseconds kFirstPeriod{30};
constexpr milliseconds kLastPeriod{2000};
constexpr int kLooksPerPeriod = 100;
// Many processes take long to look at: a twentieth of a CPU at most.
constexpr int kIdlePerLook = 20;
// The maps of a process with many libraries.
constexpr size_t kMaxMapsBytes = 16 << 20;

std::vector<fs::path> EntriesOf(const std::string& directory) {
  std::vector<fs::path> entries;
  std::error_code error;
  for (fs::directory_iterator entry(directory, error); !error && entry != fs::directory_iterator();
       entry.increment(error)) {
    entries.push_back(entry->path());
  }
  return entries;
}

// A checkpoint in the making.
bool IsWriteOnly(const std::string& fdinfo) {
  const Result<std::string> text = ReadFile(fdinfo);
  const size_t at = text ? text->find("flags:") : std::string::npos;
  if (at == std::string::npos) return false;
  return (std::strtol(text->c_str() + at + 6, nullptr, 8) & O_ACCMODE) == O_WRONLY;
}

bool AddIfModel(const std::string& path, uint64_t min_bytes, FileSizes& files) {
  if (path.empty() || path[0] != '/' || files.contains(path) || !IsModelFile(path)) return false;
  struct stat info {};
  if (stat(path.c_str(), &info) != 0 || !S_ISREG(info.st_mode)) return false;
  const auto bytes = static_cast<uint64_t>(info.st_size);
  if (bytes < min_bytes) return false;
  files[path] = bytes;
  return true;
}

}  // namespace

bool AddOpenModels(const SysRoots& roots, pid_t pid, uint64_t min_bytes, FileSizes& files) {
  bool has_new = false;
  for (const pid_t each : Descendants(roots, pid)) {
    const std::string process = roots.Proc("/" + std::to_string(each));
    for (const fs::path& descriptor : EntriesOf(process + "/fd")) {
      std::error_code error;
      const fs::path target = fs::read_symlink(descriptor, error);
      if (error || !IsModelFile(target)) continue;
      if (!IsWriteOnly(process + "/fdinfo/" + descriptor.filename().string())) {
        has_new |= AddIfModel(target, min_bytes, files);
      }
    }
    const Result<std::string> maps = ReadFile(process + "/maps", kMaxMapsBytes);
    std::istringstream lines(maps ? *maps : "");
    std::string last;
    for (std::string line; std::getline(lines, line);) {
      const size_t slash = line.find('/');
      std::string path = slash == std::string::npos ? "" : line.substr(slash);
      if (path == last) continue;
      has_new |= AddIfModel(path, min_bytes, files);
      last = std::move(path);
    }
  }
  return has_new;
}

OpenModelsWatch::OpenModelsWatch(const SysRoots& roots, pid_t pid, uint64_t min_bytes,
                                 Handler on_new)
    : thread_([this, roots, pid, min_bytes, on_new = std::move(on_new)] {
        Run(roots, pid, min_bytes, on_new);
      }) {}

OpenModelsWatch::~OpenModelsWatch() {
  {
    const std::lock_guard lock(mutex_);
    is_ending_ = true;
  }
  wake_.notify_all();
  thread_.join();
}

void OpenModelsWatch::Run(const SysRoots& roots, pid_t pid, uint64_t min_bytes,
                          const Handler& on_new) {
  FileSizes files;
  milliseconds period = kFirstPeriod;
  for (int looks = 1;; ++looks) {
    const auto before = steady_clock::now();
    if (AddOpenModels(roots, pid, min_bytes, files)) on_new(files);
    const auto took = duration_cast<milliseconds>(steady_clock::now() - before);
    if (looks % kLooksPerPeriod == 0) period = std::min(period * 2, kLastPeriod);
    std::unique_lock lock(mutex_);
    if (wake_.wait_for(lock, std::max(period, took * kIdlePerLook), [this] { return is_ending_; }))
      return;
  }
}

std::set<pid_t> Descendants(const SysRoots& roots, pid_t pid) {
  std::set<pid_t> known = {pid};
  std::vector<pid_t> open = {pid};
  while (!open.empty()) {
    const std::string tasks = roots.Proc("/" + std::to_string(open.back()) + "/task");
    open.pop_back();
    for (const int thread : ListNumbers(tasks)) {
      const Result<std::string> line = ReadLine(tasks + "/" + std::to_string(thread) + "/children");
      std::istringstream children(line ? *line : "");
      for (pid_t child = 0; children >> child;) {
        if (known.insert(child).second) open.push_back(child);
      }
    }
  }
  return known;
}

}  // namespace ppc::ctl
