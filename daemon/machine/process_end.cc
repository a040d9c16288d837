// SPDX-License-Identifier: Apache-2.0
#include "daemon/machine/process_end.h"

#include <sys/ioctl.h>
#include <sys/wait.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <csignal>

#include "daemon/base/files.h"
#include "daemon/machine/proc_info.h"

namespace ppc {
namespace {

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
