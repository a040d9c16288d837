// SPDX-License-Identifier: Apache-2.0
#include "extras/poll/poller.h"

#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <optional>
#include <utility>

#include "daemon/base/clock.h"
#include "daemon/machine/proc_info.h"

namespace ppc {
namespace {

constexpr uint64_t kFastNs = 15 * kNsPerMs;    // between looks at active readers
constexpr uint64_t kSlowNs = 200 * kNsPerMs;   // between looks at idle readers
constexpr uint64_t kFilesNs = 75 * kNsPerMs;   // between looks at a process's descriptors
constexpr uint64_t kFindNs = 250 * kNsPerMs;   // between searches for new readers
constexpr uint64_t kNobodyNs = 1 * kNsPerSec;  // likewise, long after the last reader ended
constexpr uint64_t kPatienceNs = 60 * kNsPerSec;
constexpr uint64_t kFindBudgetNs = 5 * kNsPerMs;
constexpr uint64_t kChunksPerTurn = 64;  // of mappings, for all processes: about 2 ms

}  // namespace

Poller::Poller(SysRoots roots, int root_pid, PolledFiles* files, EventSink* sink)
    : roots_(std::move(roots)),
      root_pid_(root_pid),
      own_pid_(getpid()),
      own_uid_(geteuid()),
      files_(files),
      sink_(sink) {}

Poller::~Poller() { Stop(); }

void Poller::Start() {
  const std::lock_guard lock(run_mutex_);
  if (thread_.joinable()) return;
  stopping_ = false;
  thread_ = std::thread([this] { Run(); });
}

void Poller::Stop() {
  std::thread ended;
  {
    const std::lock_guard lock(run_mutex_);
    stopping_ = true;
    ended = std::move(thread_);
  }
  wake_.notify_all();
  if (ended.joinable()) ended.join();
  const std::lock_guard lock(mutex_);
  watched_.clear();
  checked_.clear();
}

void Poller::Run() {
  sigset_t all;
  sigfillset(&all);
  pthread_sigmask(SIG_BLOCK, &all, nullptr);
  pthread_setname_np(pthread_self(), "ppc-poll");
  std::unique_lock lock(run_mutex_);
  while (!stopping_) {
    lock.unlock();
    const bool any = Turn();
    const uint64_t rest = RestNs(any, MonotonicNs());
    lock.lock();
    wake_.wait_for(lock, std::chrono::nanoseconds(rest), [this] { return stopping_; });
  }
}

// The file system's server may be dead, so the thread that takes events does not look itself.
void Poller::LookAtRoot() {
  const Result<UniqueFd> root = files_->root_files().Open("", O_PATH | O_DIRECTORY);
  if (!root && (root.error().code == ENODEV || root.error().code == ENOENT)) is_gone_ = true;
}

bool Poller::Turn() {
  LookAtRoot();
  const std::lock_guard lock(mutex_);
  const uint64_t now = MonotonicNs();
  const bool found = Find(now);
  return Look(now) || found;
}

uint64_t Poller::RestNs(bool any, uint64_t now_ns) {
  const std::lock_guard lock(mutex_);
  if (any || active_ns_ == 0) active_ns_ = now_ns;
  if (watched_.empty()) return now_ns > active_ns_ + kPatienceNs ? kNobodyNs : kFindNs;
  rest_ns_ = any ? kFastNs : std::min(rest_ns_ + rest_ns_ / 8 + kNsPerMs / 2, kSlowNs);
  return std::max(rest_ns_, kFastNs);
}

// ------------------------------------------------------------------ newcomers

bool Poller::IsDescendant(int pid) const {
  constexpr int kMaxDepth = 64;
  const int first = pid;
  for (int depth = 0; depth < kMaxDepth && pid > 1; ++depth) {
    if (pid == root_pid_ || (pid != first && watched_.contains(pid))) return true;
    pid = ProcessParent(roots_, pid).value_or(0);
  }
  return false;
}

bool Poller::IsMine(int pid) const {
  if (pid == own_pid_) return false;
  struct stat st {};
  if (stat(roots_.Proc("/" + std::to_string(pid)).c_str(), &st) != 0) return false;
  if (own_uid_ != 0 && st.st_uid != own_uid_) return false;
  return root_pid_ == 0 || IsDescendant(pid);
}

// New processes first, then again some of those without files of ours.
bool Poller::Find(uint64_t now_ns) {
  const bool is_long = watched_.empty() && active_ns_ != 0 && now_ns > active_ns_ + kPatienceNs;
  if (found_ns_ != 0 && now_ns < found_ns_ + (is_long ? kNobodyNs : kFindNs)) return false;
  found_ns_ = now_ns;
  std::vector<int> pids = ListNumbers(roots_.Proc(""));
  std::sort(pids.begin(), pids.end());
  std::erase_if(checked_,
                [&pids](int pid) { return !std::binary_search(pids.begin(), pids.end(), pid); });
  std::erase_if(pids, [this](int pid) { return watched_.contains(pid); });
  // Old processes from the end of the last search on.
  std::stable_sort(pids.begin(), pids.end(), [this](int a, int b) {
    const auto rank = [this](int pid) {
      return !checked_.contains(pid) ? 0 : pid >= next_check_ ? 1 : 2;
    };
    return rank(a) < rank(b);
  });
  bool any = false;
  next_check_ = 0;
  for (const int pid : pids) {
    const bool is_old = checked_.contains(pid);
    if (is_old && MonotonicNs() > now_ns + kFindBudgetNs) {
      next_check_ = pid;
      break;
    }
    checked_.insert(pid);
    if (!IsMine(pid)) continue;
    const std::optional<uint64_t> start = ProcessStartNs(roots_, pid);
    if (!start) continue;
    auto found =
        std::make_unique<WatchedProcess>(roots_, pid, *start, files_, sink_, &next_open_id_);
    found->LookAtFiles();
    if (!found->HasFiles() && root_pid_ == 0) continue;
    any = true;
    watched_[pid] = std::move(found);
    checked_.erase(pid);
  }
  return any;
}

// --------------------------------------------------------------------- looking

bool Poller::Look(uint64_t now_ns) {
  bool any = false;
  if (now_ns >= files_ns_ + kFilesNs) {
    files_ns_ = now_ns;
    for (auto it = watched_.begin(); it != watched_.end();) {
      WatchedProcess& process = *it->second;
      const bool is_there = ProcessStartNs(roots_, process.pid()) == process.start_ns();
      if (is_there) any |= process.LookAtFiles();
      if (!is_there) process.End();
      const bool is_kept = is_there && (process.HasFiles() || root_pid_ != 0);
      it = is_kept ? std::next(it) : watched_.erase(it);
    }
  }
  const uint64_t share = kChunksPerTurn / std::max<uint64_t>(watched_.size(), 1);
  for (const auto& [pid, process] : watched_)
    any |= process->LookAtUse(std::max<uint64_t>(share, 8));
  if (std::ranges::any_of(watched_, [](const auto& entry) { return entry.second->IsDenied(); }))
    was_denied_ = true;
  return any;
}

void Poller::AddMapped(uint64_t file, uint64_t offset, uint64_t length,
                       std::vector<bool>* bits) const {
  const std::lock_guard lock(mutex_);
  for (const auto& [pid, process] : watched_) process->AddMapped(file, offset, length, bits);
}

}  // namespace ppc
