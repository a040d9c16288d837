// SPDX-License-Identifier: Apache-2.0
#include "daemon/supervisor/runner_process.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <utility>

#include "daemon/base/files.h"
#include "daemon/base/log.h"
#include "daemon/machine/proc_info.h"
#include "daemon/wire/exit_codes.h"
#include "daemon/wire/protocol.h"

namespace ppc::control {
namespace {

// What a runner answers (status with many counters) may be longer than a request.
constexpr size_t kMaxRunnerLineBytes = 4 << 20;
constexpr size_t kMaxUnsentBytes = 4 << 20;
constexpr size_t kMaxUnanswered = 64;
constexpr size_t kMaxLent = 32;
constexpr int kExecFailed = 127;
// From closing its channel to being killed.
constexpr Millis kExitGrace{1000};

#ifndef P_PIDFD
#define P_PIDFD 3
#endif

// Runs in the child between fork and exec: async-signal-safe calls only.
[[noreturn]] void RunChild(const char* program, int socket, int cgroup_procs, pid_t parent,
                           std::span<const UniqueFd> lent) {
  // A runner must not outlive its supervisor, stopped ones included.
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) _exit(kExecFailed);
  setpgid(0, 0);  // the terminal's Ctrl-C is for ppcd, which then drains its runners
  if (cgroup_procs >= 0) (void)!write(cgroup_procs, "0", 1);
  // Out of the way of the numbers they are to have.
  std::array<int, kMaxLent> high{};
  size_t count = 0;
  while (count < std::min(lent.size(), kMaxLent) && lent[count].IsValid()) {
    high[count] = fcntl(lent[count].Get(), F_DUPFD, kRunnerLentFd + static_cast<int>(kMaxLent));
    if (high[count++] < 0) _exit(kExecFailed);
  }
  if (socket == kRunnerChannelFd) {
    fcntl(socket, F_SETFD, 0);
  } else if (dup2(socket, kRunnerChannelFd) < 0) {
    _exit(kExecFailed);
  }
  for (size_t i = 0; i < count; ++i) {
    if (dup2(high[i], kRunnerLentFd + static_cast<int>(i)) < 0) _exit(kExecFailed);
  }
  CloseFrom(kRunnerLentFd + static_cast<int>(count));
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
  signal(SIGPIPE, SIG_DFL);
  std::array<char*, 2> argv = {const_cast<char*>(program), nullptr};
  execv(program, argv.data());
  _exit(kExecFailed);
}

// sigabbrev_np() needs a glibc of 2.32.
std::string SignalName(int signal) {
  static constexpr std::pair<int, const char*> kNames[] = {
      {SIGABRT, "SIGABRT"}, {SIGALRM, "SIGALRM"}, {SIGBUS, "SIGBUS"},   {SIGFPE, "SIGFPE"},
      {SIGHUP, "SIGHUP"},   {SIGILL, "SIGILL"},   {SIGINT, "SIGINT"},   {SIGKILL, "SIGKILL"},
      {SIGPIPE, "SIGPIPE"}, {SIGQUIT, "SIGQUIT"}, {SIGSEGV, "SIGSEGV"}, {SIGSYS, "SIGSYS"},
      {SIGTERM, "SIGTERM"}, {SIGTRAP, "SIGTRAP"}, {SIGXCPU, "SIGXCPU"}, {SIGXFSZ, "SIGXFSZ"}};
  for (const auto& [number, name] : kNames) {
    if (number == signal) return name;
  }
  return strsignal(signal);
}

}  // namespace

std::string HowItEnded(int wait_status) {
  if (WIFSIGNALED(wait_status)) {
    const int signal = WTERMSIG(wait_status);
    return "was killed by signal " + std::to_string(signal) + " (" + SignalName(signal) + ")";
  }
  const int status = WEXITSTATUS(wait_status);
  if (status == kExitExpired) return "ended because its lease had run out while it did not run";
  return "exited with status " + std::to_string(status);
}

Result<std::unique_ptr<RunnerProcess>> RunnerProcess::Spawn(EventLoop& loop,
                                                            const std::string& program,
                                                            const std::string& cgroup_dir,
                                                            std::span<const UniqueFd> lent,
                                                            Callbacks callbacks) {
  if (access(program.c_str(), X_OK) != 0) return PosixError("runner " + program, errno);
  std::array<int, 2> pair{};
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair.data()) != 0) {
    return PosixError("socketpair", errno);
  }
  UniqueFd ours(pair[0]);
  UniqueFd theirs(pair[1]);
  UniqueFd procs;
  if (!cgroup_dir.empty()) {
    procs.Reset(open((cgroup_dir + "/cgroup.procs").c_str(), O_WRONLY | O_CLOEXEC));
  }
  const pid_t parent = getpid();
  const pid_t pid = fork();
  if (pid < 0) return PosixError("fork", errno);
  if (pid == 0) RunChild(program.c_str(), theirs.Get(), procs.Get(), parent, lent);
  UniqueFd pidfd(static_cast<int>(syscall(SYS_pidfd_open, pid, 0)));
  std::unique_ptr<RunnerProcess> runner(new RunnerProcess(
      loop, pid, std::move(pidfd), std::move(ours), cgroup_dir, std::move(callbacks)));
  if (Status status = runner->StartWatching(); !status) return std::move(status).error();
  return runner;
}

RunnerProcess::RunnerProcess(EventLoop& loop, pid_t pid, UniqueFd pidfd, UniqueFd socket,
                             std::string cgroup_dir, Callbacks callbacks)
    : loop_(loop),
      pid_(pid),
      pidfd_(std::move(pidfd)),
      channel_(std::move(socket), kMaxRunnerLineBytes, kMaxUnsentBytes),
      cgroup_dir_(std::move(cgroup_dir)),
      callbacks_(std::move(callbacks)) {}

RunnerProcess::~RunnerProcess() {
  for (const auto& question : questions_) loop_.Cancel(question->timer);
  if (!is_broken_) loop_.Unwatch(channel_.fd());
  if (has_exited_) return;
  if (pidfd_.IsValid()) loop_.Unwatch(pidfd_.Get());
  if (death_timer_) loop_.Cancel(*death_timer_);
  kill(pid_, SIGKILL);
  pollfd ended{pidfd_.Get(), POLLIN, 0};
  (void)poll(&ended, 1, static_cast<int>(callbacks_.death_limit.count()));
  if (waitpid(pid_, nullptr, WNOHANG) == 0) LeaveToLoop();
  if (!cgroup_dir_.empty()) rmdir(cgroup_dir_.c_str());
}

Status RunnerProcess::StartWatching() {
  if (!pidfd_.IsValid()) return PosixError("pidfd_open", ENOSYS);
  Status status = loop_.Watch(pidfd_.Get(), EPOLLIN, [this](uint32_t) { HandleExit(); });
  if (!status) return status;
  return loop_.Watch(channel_.fd(), EPOLLIN, [this](uint32_t events) { HandleSocket(events); });
}

void RunnerProcess::Ask(Json message, Millis timeout, AnswerHandler handler) {
  auto question = std::make_shared<Question>();
  const auto answer_later = [this](AnswerHandler function, Error error) {
    loop_.After(Millis(0),
                [function = std::move(function), error = std::move(error)] { function(error); });
  };
  if (is_broken_) return answer_later(std::move(handler), Error{EPIPE, "the runner is gone"});
  if (questions_.size() >= kMaxUnanswered) {
    return answer_later(std::move(handler), Error{EAGAIN, "the runner has too much unanswered"});
  }
  message["v"] = kProtocolVersion;
  message["id"] = question->id = ++asked_;
  if (Status status = channel_.Send(DumpJson(message)); !status) {
    return answer_later(std::move(handler), status.error());
  }
  question->handler = std::move(handler);
  question->op = JsonText(message, "op");
  question->timer = loop_.After(timeout, [question, timeout] {
    const AnswerHandler late = std::exchange(question->handler, nullptr);
    late(Error{ETIMEDOUT, "the runner did not answer " + question->op + " within " +
                              std::to_string(timeout.count()) + " ms"});
  });
  questions_.push_back(std::move(question));
  UpdateWatch();
}

void RunnerProcess::Kill(int signal) {
  if (has_exited_) return;
  kill(pid_, signal);
  if (signal == SIGKILL && !death_timer_)
    death_timer_ = loop_.After(callbacks_.death_limit, [this] { GiveUp(); });
}

// It waits in the kernel, for a server that is gone perhaps, and nothing ends it.
void RunnerProcess::GiveUp() {
  Log(LogLevel::kError, "runner " + std::to_string(pid_) +
                            " was killed and does not end; what it waits for is in /proc/" +
                            std::to_string(pid_) + "/stack");
  has_exited_ = true;
  loop_.Unwatch(pidfd_.Get());
  LeaveToLoop();
  Break(Error{EPIPE, "the runner does not end"});
  if (callbacks_.on_exit) callbacks_.on_exit(SIGKILL);
}

void RunnerProcess::LeaveToLoop() {
  auto left = std::make_shared<UniqueFd>(std::move(pidfd_));
  const int fd = left->Get();
  (void)loop_.Watch(fd, EPOLLIN, [&loop = loop_, left = std::move(left)](uint32_t) {
    const std::shared_ptr<UniqueFd> last = left;  // which Unwatch lets go
    (void)waitid(static_cast<idtype_t>(P_PIDFD), static_cast<id_t>(last->Get()), nullptr,
                 WEXITED | WNOHANG);
    loop.Unwatch(last->Get());
  });
}

bool RunnerProcess::IsStopped() const {
  if (has_exited_) return false;
  const char state = ProcessState(SysRoots(), pid_);
  return state == 'T' || state == 't';
}

void RunnerProcess::UpdateWatch() {
  if (is_broken_) return;
  loop_.Change(channel_.fd(), EPOLLIN | (channel_.has_unsent() ? EPOLLOUT : 0U));
}

void RunnerProcess::HandleSocket(uint32_t events) {
  const bool is_writable = (events & EPOLLOUT) == 0 || channel_.Flush().ok();
  const bool is_open = channel_.Receive();  // its last words, too
  HandleLines();
  if (!is_open || !is_writable) Break(Error{EPIPE, "the runner is gone"});
  UpdateWatch();
}

void RunnerProcess::HandleLines() {
  while (!is_broken_) {
    const Result<std::optional<std::string>> line = channel_.NextLine();
    if (!line) {
      HandleAnswer(line.error());
    } else if (line->has_value()) {
      HandleLine(**line);
    } else {
      return;
    }
  }
}

void RunnerProcess::HandleAnswer(Result<Json> answer) {
  const uint64_t id = answer ? JsonCount(*answer, "id") : 0;
  if (answer) answer->erase("id");
  // Nothing but a status is ever too long.
  auto at = std::ranges::find_if(questions_, [&](const auto& question) {
    return answer ? question->id == id : question->op == "status";
  });
  if (at == questions_.end() && id == 0) at = questions_.begin();
  if (at == questions_.end()) return;  // an answer to nothing: ignored
  const std::shared_ptr<Question> question = *at;
  questions_.erase(at);
  loop_.Cancel(question->timer);
  if (question->handler) question->handler(std::move(answer));
}

void RunnerProcess::HandleLine(const std::string& line) {
  Result<Json> message = ParseJsonObject(line, "line of the runner");
  if (!message) {
    Log(LogLevel::kError, "runner " + std::to_string(pid_) + ": " + message.error().message);
    return Kill(SIGKILL);
  }
  if (message->contains("event")) {
    if (callbacks_.on_event) callbacks_.on_event(*message);
    return;
  }
  HandleAnswer(std::move(message));
}

// The channel is closed or unusable.  The exit itself is seen by the pidfd; a
// process that closed its channel without exiting is of no use.
void RunnerProcess::Break(const Error& error) {
  if (is_broken_) return;
  is_broken_ = true;
  loop_.Unwatch(channel_.fd());
  if (!has_exited_) {
    auto pidfd = std::make_shared<UniqueFd>(dup(pidfd_.Get()));
    loop_.After(kExitGrace,
                [pidfd] { syscall(SYS_pidfd_send_signal, pidfd->Get(), SIGKILL, nullptr, 0); });
  }
  std::deque<std::shared_ptr<Question>> unanswered;
  unanswered.swap(questions_);
  for (const auto& question : unanswered) {
    loop_.Cancel(question->timer);
    if (question->handler) question->handler(error);
  }
}

void RunnerProcess::HandleExit() {
  siginfo_t info{};
  if (waitid(static_cast<idtype_t>(P_PIDFD), static_cast<id_t>(pidfd_.Get()), &info,
             WEXITED | WNOHANG) != 0 ||
      info.si_pid == 0) {
    return;
  }
  has_exited_ = true;
  if (death_timer_) loop_.Cancel(*death_timer_);
  loop_.Unwatch(pidfd_.Get());
  if (!is_broken_) {
    channel_.Receive();  // its last words
    HandleLines();
  }
  Break(Error{EPIPE, "the runner is gone"});
  if (!cgroup_dir_.empty()) rmdir(cgroup_dir_.c_str());
  const int status = info.si_code == CLD_EXITED ? info.si_status << 8 : info.si_status & 0x7f;
  if (callbacks_.on_exit) callbacks_.on_exit(status);
}

}  // namespace ppc::control
