// SPDX-License-Identifier: Apache-2.0
// Owns the observer's own thread: whatever may wait for a file system or reads /proc is done here,
// never by the thread that consumes the events.  Questions that come while it is busy get helpers:
// a cold disk answers many as fast as one. Threads: any; Ask by those that can do without an
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
  struct Looked {
    uint64_t again_ns = 0;    // until it wants to be done again
    bool wants_scan = false;  // as WantScan
  };
  struct Options {
    std::string dir;
    dev_t dev = 0;  // of the directory
    ino_t ino = 0;
    bool wants_scan = false;       // the first listing did not get through
    std::function<Looked()> look;  // done every so often
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
  // A process reads a file that is not listed, or was another directory's.
  void NoteUnlisted(uint64_t ino, uint32_t dev);
  // See ObserverFiles::OnChangedInode.
  void NoteMoved(uint64_t ino, uint32_t dev);
  // All that lay below the directory when it was registered has been listed.
  bool HasListed() const { return has_listed_.load(std::memory_order_relaxed); }
  // The directory's name leads to another one, or nowhere.
  bool IsGone() const { return is_gone_.load(std::memory_order_relaxed); }

  // What `question` says, asked on the thread or by a helper.  ETIMEDOUT: the file system has not
  // answered; while it does not, no caller waits for it again.
  Answer Ask(std::function<Answer()> question);

 private:
  void Work();
  void Help();
  bool AnswerOne(std::unique_lock<std::mutex>* lock);
  void StartHelper();
  void LookAtDirectory();

  static constexpr size_t kMaxMoved = 65536;
  static constexpr size_t kMostHelpers = 15;  // and the thread: as many as a policy asks at once

  ObserverFiles* const index_;
  const Options options_;
  std::atomic<bool> is_gone_{false};
  std::atomic<bool> has_listed_;
  std::atomic<bool> is_stuck_{false};  // an answer is overdue
  std::mutex mutex_;
  std::condition_variable wake_;
  bool stopping_ = false;
  bool wants_scan_;
  std::vector<std::pair<uint64_t, uint32_t>> moved_;  // inode, device
  std::vector<std::pair<uint64_t, uint32_t>> unlisted_;
  std::deque<std::function<void()>> questions_;
  std::condition_variable asked_;  // for helpers
  size_t idle_ = 0;                // of all threads, those that wait
  size_t answering_ = 0;
  std::vector<std::thread> helpers_;
  std::thread thread_;
};

}  // namespace ppc

#endif  // PPC_DAEMON_BACKEND_OBSERVER_OBSERVER_THREAD_H_
