// SPDX-License-Identifier: Apache-2.0
#include "daemon/backend/cgroup_loader.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

#include "daemon/base/clock.h"
#include "daemon/base/files.h"

namespace ppc {
namespace {

using cgroup_loader::Answer;
using cgroup_loader::kDeviceFd;
using cgroup_loader::kFirstLaneFd;
using cgroup_loader::Request;

constexpr int kMaxLanes = 64;
constexpr size_t kMaxEnded = 2;  // a frozen cgroup keeps what was killed there
constexpr int kMaxRetryShift = 3;
constexpr int kCannotStart = 127;
constexpr int kCannotJoin = 126;

// Between fork and exec: async-signal-safe calls only.  The descriptors lie above everything
// they are moved to.
[[noreturn]] void RunChild(char* const argv[], int procs, int device, const int* lanes,
                           int lane_count) {
  if (write(procs, "0", 1) != 1) {
    // The cgroup may only be short of memory, or going.
    const bool is_passing = errno == ENOMEM || errno == EAGAIN || errno == EINTR || errno == ENODEV;
    _exit(is_passing ? kCannotStart : kCannotJoin);
  }
  if (dup2(device, kDeviceFd) < 0) _exit(kCannotStart);
  for (int i = 0; i < lane_count; ++i) {
    if (dup2(lanes[i], kFirstLaneFd + i) < 0) _exit(kCannotStart);
  }
  CloseFrom(kFirstLaneFd + lane_count);
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
  execv(argv[0], argv);
  _exit(kCannotStart);
}

// A duplicate that RunChild's dup2 cannot overwrite.
UniqueFd DupAbove(int fd) { return UniqueFd(fcntl(fd, F_DUPFD_CLOEXEC, kFirstLaneFd + kMaxLanes)); }

enum class Outcome { kAnswered, kLate, kGone };

// `file` goes with the message, -1: none.
ssize_t SendWith(int lane, const Request& request, int file) {
  iovec part{const_cast<Request*>(&request), sizeof(request)};
  alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(int))> space{};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  if (file >= 0) {
    message.msg_control = space.data();
    message.msg_controllen = space.size();
    cmsghdr* const header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(sizeof(int));
    std::memcpy(CMSG_DATA(header), &file, sizeof(int));
  }
  return sendmsg(lane, &message, MSG_NOSIGNAL);
}

// Waits as long as the lane's SO_RCVTIMEO says, unless `flags` forbid it.
Outcome Receive(int lane, Answer* answer, int flags) {
  ssize_t got = 0;
  do {
    got = recv(lane, answer, sizeof(*answer), flags);
  } while (got < 0 && errno == EINTR);
  if (got == static_cast<ssize_t>(sizeof(*answer))) return Outcome::kAnswered;
  return got < 0 && errno == EAGAIN ? Outcome::kLate : Outcome::kGone;
}

}  // namespace

Result<std::unique_ptr<CgroupLoader>> CgroupLoader::Open(int cgroup_fd, int device_fd,
                                                         CgroupLoaderOptions options) {
  if (options.lanes < 1 || options.lanes > kMaxLanes) {
    return Error{EINVAL, "a loader process has 1 to " + std::to_string(kMaxLanes) + " lanes"};
  }
  // Early: who cannot join the cgroup should say so when the service starts.
  const UniqueFd procs(openat(cgroup_fd, "cgroup.procs", O_WRONLY | O_CLOEXEC));
  if (!procs.IsValid()) return PosixError("join the cgroup with a loader process", errno);
  UniqueFd cgroup = DupAbove(cgroup_fd);
  const UniqueFd nothing(open("/dev/null", O_RDONLY | O_CLOEXEC));
  UniqueFd device = DupAbove(device_fd >= 0 ? device_fd : nothing.Get());
  if (!cgroup.IsValid() || !device.IsValid()) return PosixError("duplicate a descriptor", errno);
  return std::unique_ptr<CgroupLoader>(
      new CgroupLoader(std::move(cgroup), std::move(device), std::move(options)));
}

CgroupLoader::CgroupLoader(UniqueFd cgroup, UniqueFd device, CgroupLoaderOptions options)
    : cgroup_(std::move(cgroup)), device_(std::move(device)), options_(std::move(options)) {}

CgroupLoader::~CgroupLoader() {
  if (process_ != nullptr) Drop(process_);
  ReapLocked();
}

CgroupLoader::Process::~Process() {
  if (pidfd.IsValid()) (void)syscall(SYS_pidfd_send_signal, pidfd.Get(), SIGKILL, nullptr, 0);
}

void CgroupLoader::Reap() {
  const std::lock_guard lock(mutex_);
  if (process_ != nullptr) {
    pollfd ended{process_->pidfd.Get(), POLLIN, 0};
    if (poll(&ended, 1, 0) > 0) Drop(process_);
  }
  ReapLocked();
}

// mutex_ held.  Never waits: in a frozen cgroup no process dies.  What is left here goes with us.
void CgroupLoader::ReapLocked() {
  std::erase_if(ended_, [this](pid_t pid) {
    const bool is_gone = waitpid(pid, nullptr, WNOHANG) != 0;
    if (is_gone && options_.on_process) options_.on_process(pid, false);
    return is_gone;
  });
}

// mutex_ held.
std::shared_ptr<CgroupLoader::Process> CgroupLoader::Start(int* code) {
  UniqueFd procs(openat(cgroup_.Get(), "cgroup.procs", O_WRONLY | O_CLOEXEC));
  if (procs.IsValid()) procs = DupAbove(procs.Get());
  if (!procs.IsValid()) {
    *code = ECHILD;
    return nullptr;
  }
  auto process = std::make_shared<Process>();
  std::vector<UniqueFd> theirs;
  std::vector<int> numbers;
  for (int i = 0; i < options_.lanes; ++i) {
    std::array<int, 2> pair{};
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair.data()) != 0) {
      *code = errno;
      return nullptr;
    }
    process->lanes.emplace_back(pair[0]);
    const UniqueFd other(pair[1]);
    theirs.push_back(DupAbove(other.Get()));
    if (!theirs.back().IsValid()) {
      *code = errno;
      return nullptr;
    }
    numbers.push_back(theirs.back().Get());
    process->idle.push_back(static_cast<size_t>(i));
    const timeval timeout{options_.answer_timeout_ms / 1000,
                          options_.answer_timeout_ms % 1000 * 1000};
    setsockopt(pair[0], SOL_SOCKET, SO_RCVTIMEO, &timeout, sizeof(timeout));
  }
  std::array<std::string, 4> words = {options_.program, kServeLoadsFlag,
                                      std::to_string(options_.lanes),
                                      std::to_string(options_.idle_ms)};
  std::array<char*, 5> argv{};
  for (size_t i = 0; i < words.size(); ++i) argv[i] = words[i].data();
  process->pid = fork();
  if (process->pid == 0) {
    RunChild(argv.data(), procs.Get(), device_.Get(), numbers.data(), options_.lanes);
  }
  if (process->pid < 0) {
    *code = errno;
    return nullptr;
  }
  process->pidfd.Reset(static_cast<int>(syscall(SYS_pidfd_open, process->pid, 0)));
  process->answered_ns = MonotonicNs();
  // It loads nothing before it is sent something.
  if (options_.on_process) options_.on_process(process->pid, true);
  return process;
}

// mutex_ held.  Whether a process may be started now.
bool CgroupLoader::MayStart(int* code) {
  ReapLocked();
  if (is_refused_) {
    *code = EBUSY;
  } else if (ended_.size() >= kMaxEnded || MonotonicNs() < retry_after_ns_) {
    *code = kNoAnswer;
  } else {
    return true;
  }
  return false;
}

std::shared_ptr<CgroupLoader::Process> CgroupLoader::Take(size_t* lane, int* code) {
  std::unique_lock lock(mutex_);
  for (;;) {
    TakeLateAnswers();
    if (process_ == nullptr) {
      if (MayStart(code)) process_ = Start(code);
      if (process_ == nullptr) return nullptr;
    }
    const bool are_all_late = process_->late.size() == process_->lanes.size();
    if (process_->is_unresponsive || are_all_late) {
      *code = kNoAnswer;
      return nullptr;
    }
    if (!process_->idle.empty()) break;
    lane_free_.wait(lock);
  }
  *lane = process_->idle.back();
  process_->idle.pop_back();
  return process_;
}

// mutex_ held.  Answers that came after their callers had gone; what such a load did stays done.
void CgroupLoader::TakeLateAnswers() {
  if (process_ == nullptr || process_->late.empty()) return;
  const std::shared_ptr<Process> process = process_;
  bool is_gone = false;
  std::erase_if(process->late, [&](size_t lane) {
    Answer answer{};
    const Outcome outcome = Receive(process->lanes[lane].Get(), &answer, MSG_DONTWAIT);
    is_gone |= outcome == Outcome::kGone;
    if (outcome != Outcome::kAnswered) return false;
    process->idle.push_back(lane);
    process->is_unresponsive = false;
    process->has_answered = true;
    process->answered_ns = MonotonicNs();
    return true;
  });
  const uint64_t unresponsive_ns = static_cast<uint64_t>(options_.unresponsive_ms) * kNsPerMs;
  const bool is_given_up =
      process->is_unresponsive && MonotonicNs() >= process->answered_ns + unresponsive_ns;
  if (is_gone || is_given_up) Drop(process);
}

// mutex_ held.
void CgroupLoader::Drop(const std::shared_ptr<Process>& process) {
  if (process_ != process) return;
  failed_starts_ = process->has_answered ? 0 : std::min(failed_starts_ + 1, kMaxRetryShift);
  retry_after_ns_ = failed_starts_ == 0 ? 0 : MonotonicNs() + (kNsPerSec << (failed_starts_ - 1));
  ended_.push_back(process->pid);
  process_.reset();
}

void CgroupLoader::GiveBack(const std::shared_ptr<Process>& process, size_t lane, bool is_late) {
  const std::lock_guard lock(mutex_);
  if (is_late) {
    process->late.push_back(lane);
    process->is_unresponsive = true;
  } else {
    process->idle.push_back(lane);
    process->is_unresponsive = false;
    process->has_answered = true;
    process->answered_ns = MonotonicNs();
  }
  lane_free_.notify_all();
}

// `process` has closed its lane, so it has ended or is about to.
bool CgroupLoader::CouldNotJoin(const Process& process) {
  constexpr int kMomentMs = 100;
  pollfd ended{process.pidfd.Get(), POLLIN, 0};
  (void)poll(&ended, 1, kMomentMs);
  siginfo_t info{};
  const int got = waitid(P_PID, static_cast<id_t>(process.pid), &info, WEXITED | WNOHANG | WNOWAIT);
  return got == 0 && info.si_pid == process.pid && info.si_code == CLD_EXITED &&
         info.si_status == kCannotJoin;
}

int CgroupLoader::MoveTo(int cgroup_fd) {
  UniqueFd cgroup = DupAbove(cgroup_fd);
  if (!cgroup.IsValid()) return errno;
  const std::lock_guard lock(mutex_);
  cgroup_ = std::move(cgroup);
  if (process_ == nullptr) return 0;
  const UniqueFd procs(openat(cgroup_.Get(), "cgroup.procs", O_WRONLY | O_CLOEXEC));
  const std::string pid = std::to_string(process_->pid);
  if (procs.IsValid() && write(procs.Get(), pid.data(), pid.size()) > 0) return 0;
  // It may just have ended, or is not in the old one yet: another is started in the new one.
  Drop(process_);
  retry_after_ns_ = 0;
  return 0;
}

int CgroupLoader::LoadWith(int file, ppc_load* load, int node) {
  Request request{};
  request.load = *load;
  request.node = node;
  if (sched_getaffinity(0, sizeof(request.cpus), &request.cpus) != 0) CPU_ZERO(&request.cpus);
  // Twice: it may just have ended because it had nothing to do.  What a load did stays done.
  for (int attempt = 0; attempt < 2; ++attempt) {
    int code = 0;
    size_t lane = 0;
    const std::shared_ptr<Process> process = Take(&lane, &code);
    if (process == nullptr) return code;
    Answer answer{};
    const int socket = process->lanes[lane].Get();
    const bool is_sent = SendWith(socket, request, file) == static_cast<ssize_t>(sizeof(request));
    const Outcome outcome = is_sent ? Receive(socket, &answer, 0) : Outcome::kGone;
    if (outcome == Outcome::kGone) {
      const bool is_refused = CouldNotJoin(*process);
      const std::lock_guard lock(mutex_);
      is_refused_ |= is_refused;
      Drop(process);
      lane_free_.notify_all();
      continue;
    }
    GiveBack(process, lane, outcome == Outcome::kLate);
    if (outcome == Outcome::kLate) return kNoAnswer;
    *load = answer.load;
    return answer.code;
  }
  return ECHILD;
}

}  // namespace ppc
