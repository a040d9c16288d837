// SPDX-License-Identifier: Apache-2.0
#include "extras/report/page.h"

#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <climits>

#include "daemon/base/files.h"
#include "daemon/base/unique_fd.h"
#include "extras/report/parts.h"

namespace ppc::ctl {
namespace {

// Drawing takes a second; the command's caller waits no longer than this for the page.
constexpr int kMostDrawingMs = 30000;
constexpr const char* kDrawing =
    "import sys; sys.path.insert(0, sys.argv[1]); from report import start; start.main()";

// The directory of the renderer's package: beside the running program, or the installed one.
std::string RendererDir() {
  const std::string own = LinkTarget("/proc/self/exe");
  const std::string beside = own.substr(0, own.rfind('/')) + "/../share/ppc";
  return access((beside + "/report").c_str(), F_OK) == 0 ? beside : PPC_DATA_DIR;
}

// Reads a memory file from its beginning.
Result<std::string> ContentOf(const UniqueFd& fd) {
  return ReadFile("/proc/self/fd/" + std::to_string(fd.Get()), INT_MAX);
}

class SpawnActions {
 public:
  SpawnActions() { posix_spawn_file_actions_init(&actions_); }
  ~SpawnActions() { posix_spawn_file_actions_destroy(&actions_); }
  SpawnActions(const SpawnActions&) = delete;
  SpawnActions& operator=(const SpawnActions&) = delete;
  void Use(const UniqueFd& fd, int as) {
    posix_spawn_file_actions_adddup2(&actions_, fd.Get(), as);
  }
  const posix_spawn_file_actions_t* get() const { return &actions_; }

 private:
  posix_spawn_file_actions_t actions_{};
};

// Whether it exited with 0 in time; the process is gone in either case.
bool EndsWell(pid_t pid) {
  const UniqueFd process(static_cast<int>(syscall(SYS_pidfd_open, pid, 0)));
  pollfd waiting{process.Get(), POLLIN, 0};
  if (process.IsValid() && poll(&waiting, 1, kMostDrawingMs) == 0) kill(pid, SIGKILL);
  int status = 0;
  while (waitpid(pid, &status, 0) < 0) {
    if (errno != EINTR) return false;
  }
  return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

// The last line of its error output.
std::string LastComplaint(const UniqueFd& errors) {
  const Result<std::string> text = ContentOf(errors);
  const std::string all = text ? Trim(*text) : "";
  return all.empty() ? "it said nothing" : all.substr(all.rfind('\n') + 1);
}

}  // namespace

Result<std::string> ReportPage(const Json& report, const std::string& python) {
  // Files, not pipes: neither process blocks on the other.
  const UniqueFd input(memfd_create("report", MFD_CLOEXEC));
  const UniqueFd output(memfd_create("page", MFD_CLOEXEC));
  const UniqueFd errors(memfd_create("errors", MFD_CLOEXEC));
  if (!input.IsValid() || !output.IsValid() || !errors.IsValid()) {
    return PosixError("memfd_create", errno);
  }
  const std::string words = DumpJson(PageWords(report));
  if (Status written = WriteAll(input.Get(), words.data(), words.size()); !written) {
    return written.error();
  }
  lseek(input.Get(), 0, SEEK_SET);
  SpawnActions actions;
  actions.Use(input, STDIN_FILENO);
  actions.Use(output, STDOUT_FILENO);
  actions.Use(errors, STDERR_FILENO);
  std::string program = python;
  std::string isolated = "-I";
  std::string no_cache = "-B";
  std::string command = "-c";
  std::string code = kDrawing;
  std::string folder = RendererDir();
  std::array<char*, 7> argv = {program.data(), isolated.data(), no_cache.data(), command.data(),
                               code.data(),    folder.data(),   nullptr};
  pid_t pid = -1;
  const int failed = posix_spawnp(&pid, argv[0], actions.get(), nullptr, argv.data(), environ);
  if (failed == ENOENT)
    return Error{ENOENT, "a page is drawn by " + python + ", which is not here"};
  if (failed != 0) return PosixError(python, failed);
  if (!EndsWell(pid)) return Error{EIO, "the page cannot be drawn: " + LastComplaint(errors)};
  return ContentOf(output);
}

}  // namespace ppc::ctl
