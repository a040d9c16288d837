// SPDX-License-Identifier: Apache-2.0
#include "tools/ppcctl/private_daemon.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <climits>
#include <cstdlib>
#include <filesystem>
#include <optional>
#include <sstream>
#include <system_error>
#include <vector>

#include "daemon/base/files.h"
#include "daemon/machine/cgroup.h"
#include "daemon/machine/proc_info.h"
#include "daemon/wire/listen_socket.h"
#include "tools/ppcctl/user_dirs.h"

namespace ppc::ctl {
namespace {

constexpr int kExecFailed = 127;
// Its runners drain within 8 s each, all at once.
constexpr unsigned kEndMs = 12000;

#ifndef P_PIDFD
#define P_PIDFD 3
#endif

Result<std::string> FindDaemon() {
  const std::string own = LinkTarget("/proc/self/exe");
  std::vector<std::string> directories = {own.substr(0, own.rfind('/'))};
  const char* path = std::getenv("PATH");
  std::istringstream parts(path == nullptr ? "" : path);
  for (std::string part; std::getline(parts, part, ':');) directories.push_back(part);
  for (const std::string& directory : directories) {
    if (directory.empty()) continue;
    const std::string program = directory + "/ppcd";
    if (access(program.c_str(), X_OK) == 0) return program;
  }
  return Error{ENOENT, "no ppcd runs, and none is beside ppcctl or in PATH to be started"};
}

// Without what is meant for the command: its readiness is not ppcd's.
std::vector<char*> EnvironmentOfDaemon() {
  std::vector<char*> kept;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string_view text(*entry);
    if (!text.starts_with("NOTIFY_SOCKET=") && !text.starts_with("JOURNAL_STREAM=")) {
      kept.push_back(*entry);
    }
  }
  kept.push_back(nullptr);
  return kept;
}

// How sd_listen_fds(3) hands a listening socket over.  The process number is known in the child.
struct SocketVariables {
  static constexpr size_t kPidAt = sizeof("LISTEN_PID=") - 1;
  std::array<char, 32> pid{"LISTEN_PID="};
  char count[16] = "LISTEN_FDS=1";
  char names[24] = "LISTEN_FDNAMES=admin";

  // Async-signal-safe.
  void SetPid(pid_t value) {
    std::array<char, 16> digits{};
    size_t used = 0;
    for (; value > 0; value /= 10) digits[used++] = static_cast<char>('0' + value % 10);
    for (size_t i = 0; i < used; ++i) pid[kPidAt + i] = digits[used - 1 - i];
    pid[kPidAt + used] = '\0';
  }
};

struct Descriptors {
  int null;
  int log;
  int listening;
  int outside;  // -1: none
};

// cgroup.procs of a group that no memory limit of ours holds for, where we may join it: in a group
// that the model nearly fills what ppcd and its runner take would be missing.
UniqueFd OutsideOfLimits() {
  const SysRoots roots;
  const std::optional<std::string> own = ProcessCgroup(roots, getpid());
  if (!own) return {};
  const Result<Cgroup> group = Cgroup::Open(*own, roots);
  const std::string outside = group ? group->Unlimited() : "";
  if (outside.empty()) return {};
  return UniqueFd(open((outside + "/cgroup.procs").c_str(), O_WRONLY | O_CLOEXEC));
}

// Between fork and exec: async-signal-safe calls only.
[[noreturn]] void Exec(char* const argv[], char* const environment[], SocketVariables& handed,
                       const Descriptors& descriptors, pid_t parent) {
  constexpr int kFirstHanded = STDERR_FILENO + 1;
  // A signal that comes before ppcd awaits it waits.
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGTERM);
  sigprocmask(SIG_SETMASK, &set, nullptr);
  // Not SIGKILL: it has runners to drain, and a directory to remove.
  prctl(PR_SET_PDEATHSIG, SIGTERM);
  if (getppid() != parent) _exit(kExecFailed);
  setpgid(0, 0);  // the terminal's Ctrl-C is for the command, whose end is then told as ever
  handed.SetPid(getpid());
  const ssize_t moved = write(descriptors.outside, "0", 1);
  (void)moved;  // else it stays where it is
  // Above those that are replaced.
  const int listening = fcntl(descriptors.listening, F_DUPFD, kFirstHanded + 1);
  const int log = fcntl(descriptors.log, F_DUPFD, kFirstHanded + 1);
  dup2(descriptors.null, STDIN_FILENO);
  dup2(log, STDOUT_FILENO);
  dup2(log, STDERR_FILENO);
  dup2(listening, kFirstHanded);
  CloseFrom(kFirstHanded + 1);
  execve(argv[0], argv, environment);
  _exit(kExecFailed);
}

// "ppcd: what went wrong" without its name.
std::string LastLine(const std::string& log) {
  const Result<std::string> text = ReadFile(log);
  std::string last = text ? Trim(*text) : "";
  last = last.substr(last.rfind('\n') + 1);
  constexpr std::string_view kName = "ppcd: ";
  if (last.starts_with(kName)) last = last.substr(kName.size());
  return last.empty() ? "it said nothing" : last;
}

}  // namespace

Result<std::unique_ptr<PrivateDaemon>> PrivateDaemon::Start() {
  const Result<std::string> program = FindDaemon();
  if (!program) return program.error();
  const std::string templates = TemplateDir();
  if (templates.empty()) {
    return Error{ENOENT, "nowhere to keep templates; set HOME or XDG_STATE_HOME"};
  }
  if (Status status = MakeStateDirectories(templates); !status) return status.error();
  Result<std::string> directory = MakeRuntimeDir();
  if (!directory) return directory.error();
  std::unique_ptr<PrivateDaemon> daemon(new PrivateDaemon(*std::move(directory)));
  const Result<UniqueFd> listening = control::OpenListenSocket(daemon->socket(), 0600);
  if (!listening) return listening.error();
  if (Status status = daemon->Spawn(*program, templates, listening->Get()); !status) {
    return status.error();
  }
  return daemon;
}

Status PrivateDaemon::Spawn(const std::string& program, const std::string& template_dir,
                            int listening) {
  const UniqueFd null(open("/dev/null", O_RDONLY | O_CLOEXEC));
  const UniqueFd log(
      open((directory_ + "/log").c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600));
  if (!null.IsValid() || !log.IsValid()) return PosixError("open " + directory_ + "/log", errno);
  std::vector<std::string> words = {program,       "--private", "--socket",       socket(),
                                    "--state-dir", directory_,  "--template-dir", template_dir};
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  SocketVariables handed;
  std::vector<char*> environment = EnvironmentOfDaemon();
  environment.insert(environment.begin(), {handed.pid.data(), handed.count, handed.names});
  const UniqueFd outside = OutsideOfLimits();
  const Descriptors descriptors{null.Get(), log.Get(), listening, outside.Get()};
  const pid_t parent = getpid();
  const pid_t pid = fork();
  if (pid < 0) return PosixError("fork", errno);
  if (pid == 0) Exec(argv.data(), environment.data(), handed, descriptors, parent);
  pid_ = pid;
  pidfd_.Reset(static_cast<int>(syscall(SYS_pidfd_open, pid, 0)));
  if (pidfd_.IsValid()) return Ok();
  const int code = errno;
  kill(pid, SIGKILL);
  waitpid(pid, nullptr, 0);
  return PosixError("pidfd_open", code);
}

std::string PrivateDaemon::WhyMute(const Error& error) const {
  constexpr int kDyingMs = 100;  // its end of the connection closes before it has ended
  const std::lock_guard lock(mutex_);
  if (!HasEnded(kDyingMs)) return "a private ppcd does not answer: " + error.message;
  return "a private ppcd did not start: " + LastLine(directory_ + "/log");
}

// RunChild() may have reaped it: only the descriptor is asked, so that no other child is waited
// for.
bool PrivateDaemon::HasEnded(int timeout_ms) const {
  if (!pidfd_.IsValid()) return true;
  pollfd waiting{pidfd_.Get(), POLLIN, 0};
  return poll(&waiting, 1, timeout_ms) > 0;
}

void PrivateDaemon::End(unsigned limit_ms) {
  const std::lock_guard lock(mutex_);
  if (!pidfd_.IsValid()) return;
  syscall(SYS_pidfd_send_signal, pidfd_.Get(), SIGTERM, nullptr, 0);
  bool has_ended = HasEnded(static_cast<int>(limit_ms));
  if (!has_ended && limit_ms >= kEndMs) {
    syscall(SYS_pidfd_send_signal, pidfd_.Get(), SIGKILL, nullptr, 0);
    has_ended = true;
  }
  // One that still ends removes its directory itself.
  if (!has_ended) return;
  siginfo_t info{};
  while (waitid(static_cast<idtype_t>(P_PIDFD), static_cast<id_t>(pidfd_.Get()), &info, WEXITED) !=
             0 &&
         errno == EINTR) {
  }
  pidfd_.Reset();
  std::error_code ignored;  // it did so itself, unless it was killed
  std::filesystem::remove_all(directory_, ignored);
}

}  // namespace ppc::ctl
