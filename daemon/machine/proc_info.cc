// SPDX-License-Identifier: Apache-2.0
#include "daemon/machine/proc_info.h"

#include <dirent.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <csignal>
#include <cstdlib>
#include <memory>
#include <string_view>

#include "daemon/base/clock.h"
#include "daemon/base/files.h"
#include "daemon/base/text.h"

namespace ppc {
namespace {

constexpr uint64_t kTicksPerSec = 100;  // USER_HZ, fixed by the ABI
// Of /proc/PID/stat, counted from 1.
constexpr int kParentField = 4;
constexpr int kGroupField = 5;
constexpr int kStartTimeField = 22;
constexpr size_t kMostStatus = 16384;

std::string PidPath(const SysRoots& roots, int pid, const char* name) {
  return roots.Proc("/" + std::to_string(pid) + name);
}

std::optional<uint64_t> StatField(const SysRoots& roots, int pid, int wanted) {
  const Result<std::string> text = ReadFile(PidPath(roots, pid, "/stat"), 4096);
  if (!text) return std::nullopt;
  // The second field is the name in brackets and may hold anything: search from the end.
  size_t at = text->rfind(')');
  if (at == std::string::npos) return std::nullopt;
  for (int field = 2; field < wanted; ++field) {
    at = text->find(' ', at + 1);
    if (at == std::string::npos) return std::nullopt;
  }
  uint64_t value = 0;
  const auto parsed = std::from_chars(text->data() + at + 1, text->data() + text->size(), value);
  if (parsed.ec != std::errc()) return std::nullopt;
  return value;
}

// The text after "KEY:" in /proc/PID/status, trimmed; "" if there is no such line.
std::string StatusLine(const std::string& text, const std::string& key) {
  const size_t at = text.find("\n" + key + ":");
  if (at == std::string::npos) return "";
  const size_t start = at + key.size() + 2;
  return Trim(text.substr(start, text.find('\n', start) - start));
}

void Append(const Result<CpuList>& more, CpuList* list) {
  if (more) list->insert(list->end(), more->begin(), more->end());
}

// From linux/pidfd.h, which is newer than the headers of the build.
struct PidfdInfo {
  uint64_t mask;
  uint64_t cgroup_id;
  uint32_t ids[11];
  int32_t exit_code;
};
static_assert(sizeof(PidfdInfo) == 64);
constexpr uint64_t kInfoExit = 1 << 3;
constexpr unsigned long kGetInfo = _IOWR(0xFF, 11, PidfdInfo);

// Works after its parent has waited for it.
std::optional<int> EndOfPidfd(int pidfd) {
  PidfdInfo info = {};
  info.mask = kInfoExit;
  if (ioctl(pidfd, kGetInfo, &info) != 0 || (info.mask & kInfoExit) == 0) return std::nullopt;
  return info.exit_code;
}

// Works before that; the last field of stat.
std::optional<int> EndOfZombie(const SysRoots& roots, int pid) {
  constexpr size_t kMaxStat = 4096;
  const Result<std::string> text =
      ReadFile(roots.Proc("/" + std::to_string(pid) + "/stat"), kMaxStat);
  if (!text) return std::nullopt;
  const size_t name_end = text->rfind(") ");
  if (name_end == std::string::npos || text->compare(name_end + 2, 2, "Z ") != 0)
    return std::nullopt;
  const size_t last = text->find_last_not_of(" \n");
  const size_t space = text->rfind(' ', last);
  int code = 0;
  const char* const end = text->data() + last + 1;
  const auto [read, error] = std::from_chars(text->data() + space + 1, end, code);
  if (error != std::errc() || read != end) return std::nullopt;
  return code;
}

}  // namespace

std::optional<uint64_t> ProcessStartNs(const SysRoots& roots, int pid) {
  const std::optional<uint64_t> ticks = StatField(roots, pid, kStartTimeField);
  if (!ticks) return std::nullopt;
  return *ticks * (kNsPerSec / kTicksPerSec);
}

std::optional<int> ProcessParent(const SysRoots& roots, int pid) {
  const std::optional<uint64_t> parent = StatField(roots, pid, kParentField);
  if (!parent) return std::nullopt;
  return static_cast<int>(*parent);
}

std::optional<int> ProcessGroup(const SysRoots& roots, int pid) {
  const std::optional<uint64_t> group = StatField(roots, pid, kGroupField);
  if (!group) return std::nullopt;
  return static_cast<int>(*group);
}

char ProcessState(const SysRoots& roots, int pid) {
  const Result<std::string> text = ReadFile(PidPath(roots, pid, "/stat"), 4096);
  const size_t name_end = text ? text->rfind(") ") : std::string::npos;
  return name_end == std::string::npos || name_end + 2 >= text->size() ? 0 : (*text)[name_end + 2];
}

bool IsSameStart(uint64_t one_ns, uint64_t other_ns) {
  constexpr uint64_t kTickNs = kNsPerSec / kTicksPerSec;
  return one_ns / kTickNs == other_ns / kTickNs;
}

bool IsSameProcess(const SysRoots& roots, int pid, uint64_t start_ns) {
  const std::optional<uint64_t> start = ProcessStartNs(roots, pid);
  if (!start) return false;
  return start_ns == 0 || IsSameStart(start_ns, *start);
}

std::string ProcessEnviron(const SysRoots& roots, int pid) {
  Result<std::string> text = ReadFile(PidPath(roots, pid, "/environ"), 1 << 20);
  return text ? std::move(*text) : std::string();
}

std::optional<std::string> ProcessEnv(const std::string& environ_text, const std::string& name) {
  const std::string key = name + "=";
  for (std::string_view rest = environ_text; !rest.empty();) {
    const std::string_view variable = Cut(&rest, '\0');
    if (variable.starts_with(key)) return std::string(variable.substr(key.size()));
  }
  return std::nullopt;
}

std::optional<uint32_t> ProcessUid(const SysRoots& roots, int pid) {
  const Result<std::string> text = ReadFile(PidPath(roots, pid, "/status"), kMostStatus);
  const std::string line = text ? StatusLine(*text, "Uid") : "";
  const char* next = line.c_str();
  std::optional<uint32_t> uid;
  for (int i = 0; i < 4; ++i) {
    char* end = nullptr;
    const auto one = static_cast<uint32_t>(std::strtoul(next, &end, 10));
    if (end == next || (uid && *uid != one)) return std::nullopt;
    uid = one;
    next = end;
  }
  return uid;
}

bool IsInContainer(const SysRoots& roots, int pid) {
  const Result<std::string> text = ReadFile(PidPath(roots, pid, "/status"), kMostStatus);
  // NSpid has the process's number in each namespace.
  return text && StatusLine(*text, "NSpid").find_first_of(" \t") != std::string::npos;
}

std::string ProcessNetwork(const SysRoots& roots, int pid) {
  const std::string machines = LinkTarget(PidPath(roots, 1, "/ns/net"));
  const std::string own = LinkTarget(PidPath(roots, pid, "/ns/net"));
  return machines.empty() || own == machines ? "" : own;
}

std::optional<std::string> ProcessExe(const SysRoots& roots, int pid) {
  std::string path = LinkTarget(PidPath(roots, pid, "/exe"));
  if (path.empty()) return std::nullopt;
  constexpr std::string_view kDeleted = " (deleted)";  // the file was replaced by an upgrade
  if (path.ends_with(kDeleted)) path.resize(path.size() - kDeleted.size());
  return path;
}

std::vector<std::string> ProcessWords(const SysRoots& roots, int pid) {
  std::vector<std::string> words;
  const Result<std::string> text = ReadFile(PidPath(roots, pid, "/cmdline"), 1 << 20);
  for (std::string_view rest = text ? std::string_view(*text) : ""; !rest.empty();)
    words.emplace_back(Cut(&rest, '\0'));
  return words;
}

std::optional<std::string> ProcessCgroup(const SysRoots& roots, int pid) {
  const Result<std::string> text = ReadFile(PidPath(roots, pid, "/cgroup"), 65536);
  if (!text) return std::nullopt;
  std::optional<std::string> v2;
  for (std::string_view rest = *text; !rest.empty();) {
    // NUMBER:CONTROLLERS:PATH
    std::string_view path = Cut(&rest, '\n');
    (void)Cut(&path, ':');
    const std::string controllers = "," + std::string(Cut(&path, ':')) + ",";
    if (path.empty()) continue;
    if (controllers.find(",memory,") != std::string::npos) return std::string(path);
    if (controllers == ",,") v2 = path;
  }
  return v2;
}

std::vector<int> ListNumbers(const std::string& path) {
  std::vector<int> numbers;
  const DirStream dir(opendir(path.c_str()));
  while (dir != nullptr) {
    const dirent* entry = readdir(dir.get());
    if (entry == nullptr) break;
    if (const auto number = WholeNumber<int>(entry->d_name)) numbers.push_back(*number);
  }
  return numbers;
}

std::optional<uint64_t> NumberAfter(const std::string& text, std::string_view key, int base) {
  const size_t at = text.find(key);
  if (at == std::string::npos) return std::nullopt;
  return std::strtoull(text.c_str() + at + key.size(), nullptr, base);
}

ThreadPlaces PlacesOfThreads(const SysRoots& roots, int pid) {
  constexpr int kMaxThreads = 256;  // further threads add nothing
  ThreadPlaces places;
  const std::string base = PidPath(roots, pid, "/task");
  DirStream dir(opendir(base.c_str()));
  if (!dir) return places;
  int threads = 0;
  while (const dirent* entry = readdir(dir.get())) {
    if (entry->d_name[0] == '.' || threads++ >= kMaxThreads) continue;
    const Result<std::string> text = ReadFile(base + "/" + entry->d_name + "/status", kMostStatus);
    if (!text) continue;
    Append(ParseCpuList(StatusLine(*text, "Cpus_allowed_list")), &places.cpus);
    Append(ParseCpuList(StatusLine(*text, "Mems_allowed_list")), &places.mems);
  }
  for (CpuList* list : {&places.cpus, &places.mems}) {
    std::sort(list->begin(), list->end());
    list->erase(std::unique(list->begin(), list->end()), list->end());
  }
  return places;
}

std::vector<std::string> OpenDevices(const SysRoots& roots, int pid) {
  std::vector<std::string> devices;
  const std::string base = PidPath(roots, pid, "/fd");
  for (const int fd : ListNumbers(base)) {
    std::string name = LinkTarget(base + "/" + std::to_string(fd));
    if (name.starts_with("/dev/")) devices.push_back(std::move(name));
  }
  std::sort(devices.begin(), devices.end());
  devices.erase(std::unique(devices.begin(), devices.end()), devices.end());
  return devices;
}

std::optional<int> ProcessEnd(const SysRoots& roots, int pidfd, int pid, uint64_t start_ns) {
  if (IsSameProcess(roots, pid, start_ns)) {
    if (const std::optional<int> end = EndOfZombie(roots, pid)) return end;
  }
  return EndOfPidfd(pidfd);
}

bool IsFailure(int wait_status) {
  constexpr std::array kAsked = {SIGHUP, SIGINT, SIGPIPE, SIGTERM};
  constexpr int kShell = 128;
  if (!WIFSIGNALED(wait_status) && !WIFEXITED(wait_status)) return false;
  const int number =
      WIFSIGNALED(wait_status) ? WTERMSIG(wait_status) : WEXITSTATUS(wait_status) - kShell;
  const bool is_asked = std::ranges::find(kAsked, number) != kAsked.end();
  return !is_asked && wait_status != 0;
}

}  // namespace ppc
