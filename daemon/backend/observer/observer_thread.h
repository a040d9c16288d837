// SPDX-License-Identifier: Apache-2.0
// Owns the observer's own thread, which does all work that may wait for a file system or reads
// /proc; the thread that consumes events never does.  While it is busy, helpers answer questions: a
// cold disk serves many as fast as one.  Threads: any; Ask only by callers that can do without an
// answer.
#ifndef PPC_DAEMON_BACKEND_OBSERVER_OBSERVER_THREAD_H_
#define PPC_DAEMON_BACKEND_OBSERVER_OBSERVER_THREAD_H_

#include <sys/types.h>

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "daemon/backend/observer/observer_files.h"
#include "daemon/base/result.h"

namespace ppc {

class ObserverThread {
 public:
  struct PeriodicResult {
    uint64_t next_ns = 0;     // until the next call
    bool wants_scan = false;  // see WantScan
  };
  struct Options {
    std::string dir;
    dev_t dev = 0;  // of the directory
    ino_t ino = 0;
    bool wants_scan = false;                       // the first listing did not finish
    std::function<PeriodicResult()> run_periodic;  // called every so often
  };
  struct Answer {
    Result<FileInfo> info;
    std::string path;
  };

  // index must outlive this.
  ObserverThread(ObserverFiles* index, Options options);
  ~ObserverThread();
  ObserverThread(const ObserverThread&) = delete;
  ObserverThread& operator=(const ObserverThread&) = delete;

  void WantScan();
  // A process reads a file that is unlisted, or that was another directory's.
  void NoteUnlisted(uint64_t ino, uint32_t dev);
  // See ObserverFiles::OnChangedInode.
  void NoteChanged(uint64_t ino, uint32_t dev);
  // Whether all files that existed at registration have been listed.
  bool HasListed() const { return has_listed_.load(std::memory_order_relaxed); }
  // Whether the directory's name leads to another directory, or nowhere.
  bool IsGone() const { return is_gone_.load(std::memory_order_relaxed); }

  // Runs `question` on the thread or a helper.  ETIMEDOUT: the file system has not answered; until
  // it does, no caller waits for it again.
  Answer Ask(std::function<Answer()> question);

 private:
  void Work();
  void Help();
  bool AnswerOne(std::unique_lock<std::mutex>* lock);
  void StartHelper();
  void CheckDirectory();

  static constexpr size_t kMaxChanged = 65536;
  static constexpr size_t kMostHelpers = 15;  // and the thread: a policy asks 16 at once

  ObserverFiles* const index_;
  const Options options_;
  std::atomic<bool> is_gone_{false};
  std::atomic<bool> has_listed_;
  std::atomic<bool> is_stuck_{false};  // an answer is overdue
  std::mutex mutex_;
  std::condition_variable wake_;
  bool stopping_ = false;
  bool wants_scan_;
  std::vector<std::pair<uint64_t, uint32_t>> changed_;  // inode, device
  std::vector<std::pair<uint64_t, uint32_t>> unlisted_;
  std::deque<std::function<void()>> questions_;
  std::condition_variable asked_;  // notifies helpers
  size_t idle_ = 0;                // waiting threads, of all
  size_t answering_ = 0;
  std::vector<std::thread> helpers_;
  std::thread thread_;
};

}  // namespace ppc

#endif  // PPC_DAEMON_BACKEND_OBSERVER_OBSERVER_THREAD_H_
