// SPDX-License-Identifier: Apache-2.0
#include "tools/ppcctl/run.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <optional>
#include <system_error>
#include <thread>
#include <utility>

#include "daemon/base/files.h"
#include "daemon/base/unique_fd.h"

namespace ppc::ctl {
namespace {

constexpr int kExitSignalBase = 128;

constexpr std::array kForwarded = {SIGTERM, SIGINT,  SIGHUP,   SIGQUIT,
                                   SIGUSR1, SIGUSR2, SIGWINCH, SIGALRM};

struct Pipe {
  UniqueFd read_end;
  UniqueFd write_end;
};

Result<Pipe> MakePipe() {
  std::array<int, 2> ends{};
  if (pipe2(ends.data(), O_CLOEXEC) != 0) return PosixError("pipe", errno);
  return Pipe{UniqueFd(ends[0]), UniqueFd(ends[1])};
}

// One of the child's streams on its way to ours.
struct Stream {
  UniqueFd read_end;
  int target;
  TextFinder finder;
};

sigset_t WatchedSignals() {
  sigset_t set;
  sigemptyset(&set);
  for (const int number : kForwarded) sigaddset(&set, number);
  sigaddset(&set, SIGCHLD);
  return set;
}

// Between fork and exec, with threads beside: nothing is allocated.  `failure` takes errno when
// exec fails.
[[noreturn]] void Exec(char* const argv[], const std::map<int, UniqueFd>& outputs,
                       const sigset_t& old_mask, pid_t ptracer, int failure) {
  // Outlives exec.  An error: no Yama here, and none needed.
  if (ptracer != 0) prctl(PR_SET_PTRACER, static_cast<unsigned long>(ptracer), 0, 0, 0);
  for (const auto& [target, write_end] : outputs) dup2(write_end.Get(), target);
  sigprocmask(SIG_SETMASK, &old_mask, nullptr);
  execvp(argv[0], argv);
  const int code = errno;
  (void)!write(failure, &code, sizeof(code));
  _exit(code == ENOENT ? kExitNotFound : kExitNotExecutable);
}

// The child's group has it already.
bool IsFromTerminal(const signalfd_siginfo& info) {
  return info.ssi_code == SI_KERNEL && info.ssi_signo != SIGTERM;
}

// Copies what is there; false at the end of the stream.
bool Pump(Stream& stream, const std::function<void()>& on_text) {
  std::array<char, 16384> buffer;
  const ssize_t got = read(stream.read_end.Get(), buffer.data(), buffer.size());
  if (got < 0) return errno == EINTR || errno == EAGAIN;
  if (got == 0) return false;
  // The reader of our output may be gone; the child goes on all the same.
  (void)WriteAll(stream.target, buffer.data(), static_cast<size_t>(got));
  if (stream.finder.Feed(buffer.data(), static_cast<size_t>(got))) on_text();
  return true;
}

// Copies the child's streams, each in a thread of its own: the reader of our output may stop
// reading for as long as it likes, and signals are passed on all the same.
class Copiers {
 public:
  // The threads may outlive this object, if no process reads what they write.
  static Result<Copiers> Start(std::vector<Stream> streams, std::function<void()> on_text) {
    Result<Pipe> stop = MakePipe();
    if (!stop) return stop.error();
    Result<Pipe> life = MakePipe();
    if (!life) return life.error();
    auto shared = std::make_shared<Shared>(
        Shared{std::move(stop->read_end), std::move(life->write_end), std::move(on_text)});
    try {
      for (Stream& stream : streams) {
        std::thread([stream = std::move(stream), shared]() mutable {
          CopyToEnd(stream, *shared);
        }).detach();
      }
    } catch (const std::system_error& e) {
      return Error{e.code().value(), std::string("thread: ") + e.what()};
    }
    return Copiers(std::move(stop->write_end), std::move(life->read_end));
  }

  // The child has ended.  What it leaves running in the background may keep the streams open; that
  // does not hold us: only what is there now is copied.
  void Finish() { stop_.Reset(); }
  // Hangs up when all is copied.
  int ended() const { return ended_.Get(); }

 private:
  struct Shared {
    UniqueFd stop;  // hangs up when nothing is to be waited for any more
    UniqueFd life;  // closed with the last thread
    std::function<void()> on_text;
  };

  Copiers(UniqueFd stop, UniqueFd ended) : stop_(std::move(stop)), ended_(std::move(ended)) {}

  static void CopyToEnd(Stream& stream, const Shared& shared) {
    while (true) {
      std::array<pollfd, 2> waiting = {
          {{stream.read_end.Get(), POLLIN, 0}, {shared.stop.Get(), POLLIN, 0}}};
      if (poll(waiting.data(), waiting.size(), -1) < 0) continue;
      if (waiting[0].revents == 0 || !Pump(stream, shared.on_text)) return;
    }
  }

  UniqueFd stop_;
  UniqueFd ended_;
};

int ExitStatus(int wait_status) {
  return WIFSIGNALED(wait_status) ? kExitSignalBase + WTERMSIG(wait_status)
                                  : WEXITSTATUS(wait_status);
}

// As PID 1 of a container we get the orphans, too.  The status of `pid` if it was among them.
std::optional<int> Reap(pid_t pid) {
  std::optional<int> ours;
  int wait_status = 0;
  for (pid_t ended; (ended = waitpid(-1, &wait_status, WNOHANG)) > 0;) {
    if (ended == pid) ours = wait_status;
  }
  return ours;
}

// Passes signals on until the child has ended and its output is copied.
int Supervise(pid_t pid, int signals, Copiers& copiers) {
  std::optional<int> wait_status;
  while (true) {
    std::array<pollfd, 2> waiting = {
        {{signals, POLLIN, 0}, {wait_status ? copiers.ended() : -1, POLLIN, 0}}};
    if (poll(waiting.data(), waiting.size(), -1) < 0) continue;
    if (waiting[1].revents != 0) return ExitStatus(*wait_status);
    signalfd_siginfo info{};
    if (read(signals, &info, sizeof(info)) != sizeof(info)) continue;
    if (info.ssi_signo == SIGCHLD) {
      const std::optional<int> ended = Reap(pid);
      if (!ended) continue;
      wait_status = ended;
      copiers.Finish();
    } else if (!IsFromTerminal(info)) {
      // Without a child to take it, it is for us: we stop waiting for the reader of our output.
      if (wait_status) return ExitStatus(*wait_status);
      kill(pid, static_cast<int>(info.ssi_signo));
    }
  }
}

}  // namespace

int ExitStatusOf(const Error& error) {
  switch (error.code) {
    case ENOENT:
      return kExitNotFound;
    // Says nothing about the command: pipe, fork or exec may have failed.
    case EAGAIN:
    case EMFILE:
    case ENFILE:
    case ENOMEM:
      return kExitRunFailed;
    default:
      return kExitNotExecutable;
  }
}

bool TextFinder::Feed(const char* data, size_t bytes) {
  if (is_found_ || text_.empty()) return false;
  tail_.append(data, bytes);
  is_found_ = tail_.find(text_) != std::string::npos;
  if (tail_.size() >= text_.size()) tail_.erase(0, tail_.size() - text_.size() + 1);
  return is_found_;
}

Result<int> RunChild(const Child& child) {
  std::vector<Stream> streams;
  std::map<int, UniqueFd> outputs;  // the child's ends, by what they are to it
  if (!child.ready_text.empty()) {
    for (const int target : {STDOUT_FILENO, STDERR_FILENO}) {
      Result<Pipe> pipe = MakePipe();
      if (!pipe) return pipe.error();
      streams.push_back(Stream{std::move(pipe->read_end), target, TextFinder(child.ready_text)});
      outputs[target] = std::move(pipe->write_end);
    }
  }
  Result<Pipe> failure = MakePipe();
  if (!failure) return failure.error();
  const sigset_t watched = WatchedSignals();
  sigset_t old_mask;
  sigprocmask(SIG_BLOCK, &watched, &old_mask);
  signal(SIGPIPE, SIG_IGN);
  const UniqueFd signals(signalfd(-1, &watched, SFD_CLOEXEC));
  std::vector<char*> argv;
  for (const std::string& word : child.command) argv.push_back(const_cast<char*>(word.c_str()));
  argv.push_back(nullptr);
  // Ours as well from now on: nothing here asks for them.
  for (const auto& [name, value] : child.environment) setenv(name.c_str(), value.c_str(), 1);
  // After the signals are blocked, for the threads too.
  Result<Copiers> copiers = Copiers::Start(std::move(streams), child.on_ready_text);
  if (!copiers) return copiers.error();
  const pid_t pid = fork();
  if (pid < 0 || !signals.IsValid()) return PosixError("fork", errno);
  if (pid == 0) {
    signal(SIGPIPE, SIG_DFL);
    Exec(argv.data(), outputs, old_mask, child.ptracer, failure->write_end.Get());
  }
  failure->write_end.Reset();
  outputs.clear();
  int code = 0;
  const bool has_failed = read(failure->read_end.Get(), &code, sizeof(code)) == sizeof(code);
  if (!has_failed && child.on_start) child.on_start(pid);
  const int status = Supervise(pid, signals.Get(), *copiers);
  sigprocmask(SIG_SETMASK, &old_mask, nullptr);
  if (has_failed) return PosixError(child.command[0], code);
  return status;
}

}  // namespace ppc::ctl
