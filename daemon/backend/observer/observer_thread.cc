// SPDX-License-Identifier: Apache-2.0
#include "daemon/backend/observer/observer_thread.h"

#include <pthread.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <future>
#include <memory>
#include <system_error>

#include "daemon/base/clock.h"
#include "daemon/base/log.h"

namespace ppc {
namespace {

constexpr uint64_t kScanPartNs = 50 * kNsPerMs;  // longest part of a scan, for which questions wait
constexpr uint64_t kScanPauseNs = kNsPerSec;     // between two scans for changes
constexpr uint64_t kScanRestNs =
    10 * kNsPerMs;  // between two parts: other threads need the index and the disk
constexpr uint64_t kCheckDirNs = kNsPerSec;
constexpr std::chrono::seconds kAnswerTime(1);

void NameThread() {
  sigset_t all;
  sigfillset(&all);
  pthread_sigmask(SIG_BLOCK, &all, nullptr);
  pthread_setname_np(pthread_self(), "ppc-observe");
}

}  // namespace

ObserverThread::ObserverThread(ObserverFiles* index, Options options)
    : index_(index),
      options_(std::move(options)),
      has_listed_(!options_.wants_scan),
      wants_scan_(options_.wants_scan) {
  thread_ = std::thread([this] { Work(); });
}

ObserverThread::~ObserverThread() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  wake_.notify_all();
  asked_.notify_all();
  thread_.join();
  for (std::thread& helper : helpers_) helper.join();
}

void ObserverThread::WantScan() {
  {
    const std::lock_guard lock(mutex_);
    wants_scan_ = true;
  }
  wake_.notify_all();
}

void ObserverThread::NoteUnlisted(uint64_t ino, uint32_t dev) {
  {
    const std::lock_guard lock(mutex_);
    wants_scan_ = true;
    if (unlisted_.size() < kMaxChanged) unlisted_.emplace_back(ino, dev);
  }
  wake_.notify_all();
}

void ObserverThread::NoteChanged(uint64_t ino, uint32_t dev) {
  {
    const std::lock_guard lock(mutex_);
    if (changed_.size() < kMaxChanged) changed_.emplace_back(ino, dev);
  }
  wake_.notify_all();
}

ObserverThread::Answer ObserverThread::Ask(std::function<Answer()> question) {
  const Error late{ETIMEDOUT, options_.dir + ": its file system does not answer"};
  if (is_stuck_.load(std::memory_order_relaxed)) return Answer{late, ""};
  const auto promise = std::make_shared<std::promise<Answer>>();
  std::future<Answer> answer = promise->get_future();
  {
    const std::lock_guard lock(mutex_);
    questions_.emplace_back([this, promise, question = std::move(question)] {
      promise->set_value(question());
      is_stuck_.store(false, std::memory_order_relaxed);
    });
    if (questions_.size() > idle_) StartHelper();
  }
  wake_.notify_all();
  asked_.notify_one();
  if (answer.wait_for(kAnswerTime) == std::future_status::ready) return answer.get();
  is_stuck_.store(true, std::memory_order_relaxed);
  // It may have arrived just now.
  if (answer.wait_for(std::chrono::seconds(0)) == std::future_status::ready) {
    is_stuck_.store(false, std::memory_order_relaxed);
    return answer.get();
  }
  return Answer{late, ""};
}

// mutex_ held.  If the system has no more threads, the existing ones must do.
void ObserverThread::StartHelper() {
  if (stopping_ || helpers_.size() >= kMostHelpers) return;
  try {
    helpers_.emplace_back([this] { Help(); });
  } catch (const std::system_error&) {
  }
}

void ObserverThread::Help() {
  NameThread();
  std::unique_lock lock(mutex_);
  while (!stopping_) {
    if (AnswerOne(&lock)) continue;
    ++idle_;
    asked_.wait(lock);
    --idle_;
  }
}

// False: there is no question.
bool ObserverThread::AnswerOne(std::unique_lock<std::mutex>* lock) {
  if (questions_.empty()) return false;
  const auto question = std::move(questions_.front());
  questions_.pop_front();
  ++answering_;
  lock->unlock();
  question();
  lock->lock();
  --answering_;
  return true;
}

void ObserverThread::CheckDirectory() {
  struct stat info {};
  is_gone_.store(stat(options_.dir.c_str(), &info) != 0 || info.st_dev != options_.dev ||
                     info.st_ino != options_.ino,
                 std::memory_order_relaxed);
}

void ObserverThread::Work() {
  NameThread();
  uint64_t dir_due = MonotonicNs() + kCheckDirNs;
  uint64_t scan_due = 0;
  uint64_t periodic_due = 0;
  std::unique_lock lock(mutex_);
  while (!stopping_) {
    const uint64_t now = MonotonicNs();
    uint64_t due = std::min(dir_due, periodic_due);
    if (wants_scan_) due = std::min(due, scan_due);
    if (questions_.empty() && changed_.empty() && unlisted_.empty() && now < due) {
      ++idle_;
      wake_.wait_for(lock, std::chrono::nanoseconds(due - now));
      --idle_;
      continue;
    }
    (void)AnswerOne(&lock);
    const auto changed = std::exchange(changed_, {});
    const auto unlisted = std::exchange(unlisted_, {});
    const bool runs_periodic = now >= periodic_due;
    // A start on a cold disk needs look-ups more than the listing.
    const bool is_asked = !questions_.empty() || answering_ != 0;
    const bool scans = !is_asked && wants_scan_ && now >= scan_due;
    if (scans) wants_scan_ = false;
    if (is_asked && now >= scan_due) scan_due = MonotonicNs() + kScanRestNs;
    lock.unlock();
    bool is_done = true;
    bool is_forgotten = false;  // it may exist under another name
    for (const auto& [ino, dev] : changed) is_forgotten |= !index_->OnChangedInode(ino, dev);
    for (const auto& [ino, dev] : unlisted) index_->OnUnlistedInode(ino, dev);
    PeriodicResult periodic;
    if (runs_periodic) {
      periodic = options_.run_periodic();
      periodic_due = MonotonicNs() + periodic.next_ns;
    }
    if (now >= dir_due) {
      CheckDirectory();
      dir_due = MonotonicNs() + kCheckDirNs;
    }
    if (scans) {
      const Result<bool> scanned = index_->Rescan(MonotonicNs() + kScanPartNs);
      if (!scanned) Log(LogLevel::kWarning, scanned.error().message);
      is_done = !scanned || *scanned;
      // A process that reads many unlisted files asks for a scan each time: at most one a second.
      scan_due = MonotonicNs() + (is_done ? kScanPauseNs : kScanRestNs);
      if (is_done) has_listed_.store(true, std::memory_order_relaxed);
    }
    lock.lock();
    if (!is_done || is_forgotten || periodic.wants_scan) wants_scan_ = true;
  }
}

}  // namespace ppc
