// SPDX-License-Identifier: Apache-2.0
// Owns the observer's own thread: whatever may wait for a file system or reads /proc is done here,
// never by whoever consumes the events.
// Threads: any; Ask by those that can do without an answer.
#ifndef PPC_DAEMON_BACKEND_OBSERVER_WORKER_H_
#define PPC_DAEMON_BACKEND_OBSERVER_WORKER_H_

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

#include "daemon/backend/observer/inode_index.h"
#include "daemon/base/result.h"

namespace ppc {

class ObserverWorker {
 public:
  struct Options {
    std::string dir;
    dev_t dev = 0;  // of the directory
    ino_t ino = 0;
    bool wants_scan = false;  // the first listing did not get through
    // Done every so often; returns ns until it wants to be done again.
    std::function<uint64_t()> look;
  };
  struct Answer {
    Result<FileInfo> info;
    std::string path;
  };

  // index must outlive this.
  ObserverWorker(InodeIndex* index, Options options);
  ~ObserverWorker();
  ObserverWorker(const ObserverWorker&) = delete;
  ObserverWorker& operator=(const ObserverWorker&) = delete;

  void WantScan();
  // Somebody reads a file that is not listed, or was another directory's.
  void NoteUnlisted(uint64_t ino, uint32_t dev);
  // See InodeIndex::Relearn.
  void NoteMoved(uint64_t ino, uint32_t dev);
  // `look` is due now.
  void Hurry();
  // The directory's name leads to another one, or nowhere.
  bool IsGone() const { return is_gone_.load(std::memory_order_relaxed); }

  // What `question` says, asked on the thread.  ETIMEDOUT: the file system has not answered; while
  // it does not, nobody waits for it again.
  Answer Ask(std::function<Answer()> question);

 private:
  void Work();
  void LookAtDirectory();

  static constexpr size_t kMaxMoved = 65536;

  InodeIndex* const index_;
  const Options options_;
  std::atomic<bool> is_gone_{false};
  std::atomic<bool> is_stuck_{false};  // an answer is overdue
  std::mutex mutex_;
  std::condition_variable wake_;
  bool stopping_ = false;
  bool wants_scan_;
  bool is_hurried_ = false;
  std::vector<std::pair<uint64_t, uint32_t>> moved_;  // inode, device
  std::vector<std::pair<uint64_t, uint32_t>> unlisted_;
  std::deque<std::function<void()>> questions_;
  std::thread thread_;
};

}  // namespace ppc

#endif  // PPC_DAEMON_BACKEND_OBSERVER_WORKER_H_
