// SPDX-License-Identifier: Apache-2.0
#include "tools/ppcctl/run.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>

#include "daemon/base/files.h"
#include "daemon/base/unique_fd.h"

namespace ppc::ctl {
namespace {

constexpr int kExitNotFound = 127;
constexpr int kExitNotExecutable = 126;
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
  Pipe pipe;
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

// Between fork and exec.  `failure` takes errno when exec fails.
[[noreturn]] void Exec(const Child& child, std::vector<Stream>& streams, const sigset_t& old_mask,
                       int failure) {
  for (Stream& stream : streams) dup2(stream.pipe.write_end.Get(), stream.target);
  for (const std::string& entry : child.environment) putenv(const_cast<char*>(entry.c_str()));
  std::vector<char*> argv;
  for (const std::string& word : child.command) argv.push_back(const_cast<char*>(word.c_str()));
  argv.push_back(nullptr);
  sigprocmask(SIG_SETMASK, &old_mask, nullptr);
  execvp(argv[0], argv.data());
  const int code = errno;
  (void)!write(failure, &code, sizeof(code));
  _exit(code == ENOENT ? kExitNotFound : kExitNotExecutable);
}

void ForwardSignal(const signalfd_siginfo& info, pid_t pid) {
  // From the terminal, the child's group has it already.
  if (info.ssi_code == SI_KERNEL && info.ssi_signo != SIGTERM) return;
  kill(pid, static_cast<int>(info.ssi_signo));
}

// Copies what is there; false at the end of the stream.
bool Pump(Stream& stream, const std::function<void()>& on_text) {
  std::array<char, 16384> buffer;
  const ssize_t got = read(stream.pipe.read_end.Get(), buffer.data(), buffer.size());
  if (got < 0) return errno == EINTR || errno == EAGAIN;
  if (got == 0) return false;
  // Whoever read our output may be gone; the child goes on all the same.
  (void)WriteAll(stream.target, buffer.data(), static_cast<size_t>(got));
  if (stream.finder.Feed(buffer.data(), static_cast<size_t>(got))) on_text();
  return true;
}

int ExitStatus(int wait_status) {
  return WIFSIGNALED(wait_status) ? kExitSignalBase + WTERMSIG(wait_status)
                                  : WEXITSTATUS(wait_status);
}

// Until the child has ended.  What it leaves running in the background may keep
// the pipes open; that does not hold us.
int Supervise(pid_t pid, int signals, std::vector<Stream>& streams, const Child& child) {
  while (true) {
    std::vector<pollfd> waiting = {{signals, POLLIN, 0}};
    for (const Stream& stream : streams) {
      waiting.push_back({stream.pipe.read_end.Get(), POLLIN, 0});
    }
    if (poll(waiting.data(), waiting.size(), -1) < 0) continue;
    for (size_t i = streams.size(); i-- > 0;) {
      if (waiting[i + 1].revents == 0) continue;
      if (!Pump(streams[i], child.on_ready_text)) {
        streams.erase(streams.begin() + static_cast<std::ptrdiff_t>(i));
      }
    }
    signalfd_siginfo info{};
    if ((waiting[0].revents & POLLIN) == 0 || read(signals, &info, sizeof(info)) != sizeof(info)) {
      continue;
    }
    if (info.ssi_signo != SIGCHLD) {
      ForwardSignal(info, pid);
      continue;
    }
    int wait_status = 0;
    if (waitpid(pid, &wait_status, WNOHANG) != pid) continue;
    for (Stream& stream : streams) {
      fcntl(stream.pipe.read_end.Get(), F_SETFL, O_NONBLOCK);
      pollfd rest{stream.pipe.read_end.Get(), POLLIN, 0};
      while (poll(&rest, 1, 0) > 0 && Pump(stream, child.on_ready_text)) {
      }
    }
    return ExitStatus(wait_status);
  }
}

}  // namespace

bool TextFinder::Feed(const char* data, size_t bytes) {
  if (is_found_ || text_.empty()) return false;
  tail_.append(data, bytes);
  is_found_ = tail_.find(text_) != std::string::npos;
  if (tail_.size() >= text_.size()) tail_.erase(0, tail_.size() - text_.size() + 1);
  return is_found_;
}

Result<int> RunChild(const Child& child) {
  std::vector<Stream> streams;
  if (!child.ready_text.empty()) {
    for (const int target : {STDOUT_FILENO, STDERR_FILENO}) {
      Result<Pipe> pipe = MakePipe();
      if (!pipe) return pipe.error();
      streams.push_back(Stream{std::move(pipe).value(), target, TextFinder(child.ready_text)});
    }
  }
  Result<Pipe> failure = MakePipe();
  if (!failure) return failure.error();
  const sigset_t watched = WatchedSignals();
  sigset_t old_mask;
  sigprocmask(SIG_BLOCK, &watched, &old_mask);
  signal(SIGPIPE, SIG_IGN);
  const UniqueFd signals(signalfd(-1, &watched, SFD_CLOEXEC));
  const pid_t pid = fork();
  if (pid < 0 || !signals.IsValid()) return PosixError("fork", errno);
  if (pid == 0) {
    signal(SIGPIPE, SIG_DFL);
    Exec(child, streams, old_mask, failure->write_end.Get());
  }
  failure->write_end.Reset();
  for (Stream& stream : streams) stream.pipe.write_end.Reset();
  int code = 0;
  const bool has_failed = read(failure->read_end.Get(), &code, sizeof(code)) == sizeof(code);
  const int status = Supervise(pid, signals.Get(), streams, child);
  sigprocmask(SIG_SETMASK, &old_mask, nullptr);
  if (has_failed) return PosixError(child.command[0], code);
  return status;
}

}  // namespace ppc::ctl
