// SPDX-License-Identifier: Apache-2.0
#include "daemon/backend/observer/worker.h"

#include <pthread.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <future>
#include <memory>

#include "daemon/base/clock.h"
#include "daemon/base/log.h"

namespace ppc {
namespace {

constexpr uint64_t kScanPartNs = 50 * kNsPerMs;  // questions wait for so long
constexpr uint64_t kScanPauseNs = kNsPerSec;     // between two looks at what changed
constexpr uint64_t kLookAtDirNs = kNsPerSec;
constexpr std::chrono::seconds kAnswerTime(1);

}  // namespace

ObserverWorker::ObserverWorker(InodeIndex* index, Options options)
    : index_(index), options_(std::move(options)), wants_scan_(options_.wants_scan) {
  thread_ = std::thread([this] { Work(); });
}

ObserverWorker::~ObserverWorker() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  wake_.notify_all();
  thread_.join();
}

void ObserverWorker::WantScan() {
  {
    const std::lock_guard lock(mutex_);
    wants_scan_ = true;
  }
  wake_.notify_all();
}

void ObserverWorker::NoteUnlisted(uint64_t ino, uint32_t dev) {
  {
    const std::lock_guard lock(mutex_);
    wants_scan_ = true;
    if (unlisted_.size() < kMaxMoved) unlisted_.emplace_back(ino, dev);
  }
  wake_.notify_all();
}

void ObserverWorker::NoteMoved(uint64_t ino, uint32_t dev) {
  {
    const std::lock_guard lock(mutex_);
    if (moved_.size() < kMaxMoved) moved_.emplace_back(ino, dev);
  }
  wake_.notify_all();
}

void ObserverWorker::Hurry() {
  {
    const std::lock_guard lock(mutex_);
    is_hurried_ = true;
  }
  wake_.notify_all();
}

ObserverWorker::Answer ObserverWorker::Ask(std::function<Answer()> question) {
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
  }
  wake_.notify_all();
  if (answer.wait_for(kAnswerTime) == std::future_status::ready) return answer.get();
  is_stuck_.store(true, std::memory_order_relaxed);
  // It may have come in between.
  if (answer.wait_for(std::chrono::seconds(0)) == std::future_status::ready) {
    is_stuck_.store(false, std::memory_order_relaxed);
    return answer.get();
  }
  return Answer{late, ""};
}

void ObserverWorker::LookAtDirectory() {
  struct stat info {};
  is_gone_.store(stat(options_.dir.c_str(), &info) != 0 || info.st_dev != options_.dev ||
                     info.st_ino != options_.ino,
                 std::memory_order_relaxed);
}

void ObserverWorker::Work() {
  sigset_t all;
  sigfillset(&all);
  pthread_sigmask(SIG_BLOCK, &all, nullptr);
  pthread_setname_np(pthread_self(), "ppc-observe");
  uint64_t dir_due = MonotonicNs() + kLookAtDirNs;
  uint64_t scan_due = 0;
  uint64_t look_due = 0;
  std::unique_lock lock(mutex_);
  while (!stopping_) {
    const uint64_t now = MonotonicNs();
    uint64_t due = std::min(dir_due, look_due);
    if (wants_scan_) due = std::min(due, scan_due);
    if (questions_.empty() && moved_.empty() && unlisted_.empty() && !is_hurried_ && now < due) {
      wake_.wait_for(lock, std::chrono::nanoseconds(due - now));
      continue;
    }
    const auto questions = std::exchange(questions_, {});
    const auto moved = std::exchange(moved_, {});
    const auto unlisted = std::exchange(unlisted_, {});
    const bool looks = std::exchange(is_hurried_, false) || now >= look_due;
    const bool scans = questions.empty() && wants_scan_ && now >= scan_due;
    if (scans) wants_scan_ = false;
    lock.unlock();
    for (const auto& question : questions) question();
    bool is_done = true;
    bool is_forgotten = false;  // it may be there under another name
    for (const auto& [ino, dev] : moved) is_forgotten |= !index_->Relearn(ino, dev);
    for (const auto& [ino, dev] : unlisted) index_->Relist(ino, dev);
    if (looks) look_due = MonotonicNs() + options_.look();
    if (now >= dir_due) {
      LookAtDirectory();
      dir_due = MonotonicNs() + kLookAtDirNs;
    }
    if (scans) {
      const Result<bool> scanned = index_->Rescan(MonotonicNs() + kScanPartNs);
      if (!scanned) Log(LogLevel::kWarning, scanned.error().message);
      is_done = !scanned || *scanned;
      // Somebody who reads many unlisted files asks for a look each time: at most one a second.
      scan_due = is_done ? MonotonicNs() + kScanPauseNs : 0;
    }
    lock.lock();
    if (!is_done || is_forgotten) wants_scan_ = true;
  }
}

}  // namespace ppc
