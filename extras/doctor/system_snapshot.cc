// SPDX-License-Identifier: Apache-2.0
#include "extras/doctor/system_snapshot.h"

#include <fcntl.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <sstream>
#include <system_error>

#include "daemon/base/files.h"
#include "daemon/machine/proc_info.h"
#include "tools/ppcctl/daemon_link.h"
#include "tools/ppcctl/model_find.h"
#include "tools/ppcctl/user_dirs.h"

namespace ppc::ctl {
namespace {

namespace fs = std::filesystem;

// Enough for the maps of a process with many libraries.
constexpr size_t kMaxMapsBytes = 64 << 20;

std::vector<std::string> Words(const std::string& cmdline) {
  std::vector<std::string> words;
  std::istringstream text(cmdline);
  for (std::string word; std::getline(text, word, '\0');) words.push_back(word);
  return words;
}

// Whether it has files of the directory open; records a file open with O_DIRECT.
bool LookAtDescriptors(const std::string& process, const std::string& path, Reader* reader) {
  bool is_reader = false;
  for (const int fd : ListNumbers(process + "/fd")) {
    std::error_code error;
    const std::string file = fs::read_symlink(process + "/fd/" + std::to_string(fd), error);
    if (error || !IsBelow(file, path) || fs::is_directory(file, error)) continue;
    is_reader = true;
    const Result<std::string> info = ReadFile(process + "/fdinfo/" + std::to_string(fd), 4096);
    if (info && (NumberAfter(*info, "flags:", 8).value_or(0) & O_DIRECT) != 0) {
      reader->direct_file = file;
    }
  }
  return is_reader;
}

// Whether it maps files of the directory; records one with read-ahead switched off.
bool LookAtMappings(const std::string& process, const std::string& path, Reader* reader) {
  const Result<std::string> maps = ReadFile(process + "/maps", kMaxMapsBytes);
  if (!maps || maps->find(path) == std::string::npos) return false;
  // Only smaps shows the flags.
  const Result<std::string> list = ReadFile(process + "/smaps", kMaxMapsBytes);
  bool is_reader = false;
  std::string file;
  std::istringstream lines(list ? *list : *maps);
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with("VmFlags:")) {
      if (!file.empty() && (line + " ").find(" rr ") != std::string::npos) {
        reader->random_file = file;
      }
    } else if (const size_t slash = line.find(" /"); slash != std::string::npos) {
      file = line.substr(slash + 1);
      if (!IsBelow(file, path)) file.clear();
      is_reader = is_reader || !file.empty();
    } else if (!line.empty() && line[0] >= '0' && line.find('-') < line.find(' ')) {
      file.clear();  // the header line of a mapping without a file
    }
  }
  return is_reader;
}

// Follows links, as a loader does; a hub cache keeps its files in blobs/.
std::vector<std::string> ModelFilesBelow(const std::string& path) {
  constexpr size_t kMostEntries = 100'000;
  std::vector<std::string> files;
  std::error_code error;
  size_t entries = 0;
  for (fs::recursive_directory_iterator entry(path, fs::directory_options::skip_permission_denied,
                                              error);
       !error && entry != fs::recursive_directory_iterator() && ++entries < kMostEntries;
       entry.increment(error)) {
    std::error_code gone;
    if (entry->is_regular_file(gone) && IsModelFile(entry->path())) files.push_back(entry->path());
  }
  std::sort(files.begin(), files.end());
  return files;
}

Json PolicyStatus(DaemonLink& link, const Json& mount) {
  if (mount.value("state", "") != "running") return nullptr;
  const Result<Json> answer = link.Ask(
      {{"op", "policy"}, {"mount", mount.value("mount", "")}, {"message", {{"op", "status"}}}});
  return answer && answer->contains("reply") ? (*answer)["reply"] : Json(nullptr);
}

}  // namespace

std::vector<Reader> ReadersBelow(const SysRoots& roots, const std::string& path,
                                 const std::vector<int>& not_these) {
  std::vector<Reader> readers;
  for (const int pid : ListNumbers(roots.Proc(""))) {
    if (std::find(not_these.begin(), not_these.end(), pid) != not_these.end()) continue;
    const std::string process = roots.Proc("/" + std::to_string(pid));
    Reader reader;
    reader.pid = pid;
    const bool has_open = LookAtDescriptors(process, path, &reader);
    if (!LookAtMappings(process, path, &reader) && !has_open) continue;
    const Result<std::string> name = ReadLine(process + "/comm");
    if (name) reader.name = *name;
    const Result<std::string> words = ReadFile(process + "/cmdline");
    if (words) reader.words = Words(*words);
    reader.cgroup = ProcessCgroup(roots, pid).value_or("");
    readers.push_back(std::move(reader));
  }
  return readers;
}

SystemSnapshot TakeSnapshot(const std::string& directory, unsigned timeout_ms) {
  SystemSnapshot snapshot;
  snapshot.roots = RootsFromEnvironment();
  snapshot.template_dir = TemplateDir();
  const char* socket = std::getenv("PPC_SOCKET");
  if (socket != nullptr && *socket != 0) snapshot.socket = socket;
  utsname kernel{};
  if (uname(&kernel) == 0) snapshot.release = kernel.release;
  DaemonLink link(timeout_ms);
  const Result<Json> status = link.Ask({{"op", "status"}});
  if (status) {
    snapshot.daemon = status->value("daemon", Json::object());
    snapshot.template_dir = snapshot.daemon.value("template_dir", snapshot.template_dir);
  } else {
    snapshot.daemon_error = status.error().code;
    snapshot.daemon_says = status.error().message;
  }
  const Json mounts = status ? status->value("mounts", Json::array()) : Json::array();
  std::vector<int> ours = {static_cast<int>(getpid()), snapshot.daemon.value("pid", 0)};
  for (const Json& mount : mounts) {
    snapshot.registered.push_back(mount.value("mount", ""));
    ours.push_back(mount.value("pid", 0));
  }
  std::vector<std::string> paths = snapshot.registered;
  if (!directory.empty()) paths = {directory};
  for (const std::string& path : paths) {
    DirectorySnapshot dir;
    dir.path = path;
    for (const Json& mount : mounts) {
      const std::string root = mount.value("mount", "");
      // The innermost wins.
      if (!IsBelow(path, root) || root.size() < dir.parent.size()) continue;
      dir.parent = root;
      dir.mount = mount;
    }
    if (dir.mount.is_object()) dir.policy = PolicyStatus(link, dir.mount);
    dir.model_files = ModelFilesBelow(path);
    dir.readers = ReadersBelow(snapshot.roots, path, ours);
    snapshot.directories.push_back(std::move(dir));
  }
  return snapshot;
}

}  // namespace ppc::ctl
