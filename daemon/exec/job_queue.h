// SPDX-License-Identifier: Apache-2.0
// Owns a thread for what would keep the executor waiting: storage, /proc, JSON.
//
// A job is a pair: work() runs on the queue's thread, after that of every job submitted before;
// done() then runs on the executor's, in the same order.  Either may be empty.  A queue that may
// have several threads starts another where all have been at one job for kStuck: then there is
// no order any more.
// Threads: Submit, Continue and Tell by any; RunDone and Finish by the executor's.  A thread of its
// own exists from the first job on; a manual queue has none, RunDone does its work too (tests,
// simulator), with the SimulatedDelay that it is given.
#ifndef PPC_DAEMON_EXEC_JOB_QUEUE_H_
#define PPC_DAEMON_EXEC_JOB_QUEUE_H_

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <deque>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "daemon/base/result.h"
#include "daemon/base/unique_fd.h"

namespace ppc {

// Runs work() on another thread, then done() on the executor's.  Returns false if the queue is
// full.  If empty, there is no other thread: the caller does the work inline (tests, simulator).
using Offload = std::function<bool(std::function<void()> work, std::function<void()> done)>;

class JobQueue {
 public:
  using Function = std::function<void()>;
  static constexpr size_t kMaxJobs = 4096;

  // How long a manual queue's jobs take where time is not the machine's.
  struct SimulatedDelay {
    Function before;                // each work()
    std::function<bool()> goes_on;  // after it: the job is not over yet
  };

  static constexpr std::chrono::milliseconds kStuck{100};

  // name: of the thread, at most 15 bytes.
  JobQueue(std::string name, bool manual, SimulatedDelay delay = {}, size_t most_threads = 1);
  // Runs all queued work(); discards pending done() calls.
  ~JobQueue();
  JobQueue(const JobQueue&) = delete;
  JobQueue& operator=(const JobQueue&) = delete;

  // EAGAIN: there are kMaxJobs, or no thread can be started; ESHUTDOWN: Finish or Close is over.
  Status Submit(Function work, Function done);
  // The same for what goes on with something that was taken before, of which there is never more
  // than a few: it is not refused for want of place.
  Status Continue(Function work, Function done);
  // done() alone, by any thread: it waits for no job.
  void Tell(Function done);
  // Readable once RunDone has something to do, until ClearWake.
  int fd() const { return done_fd_.Get(); }
  void ClearWake();
  // Runs what is there to be run on the executor's thread; how many.  Does not wait, and with
  // nothing to run it takes no lock.
  size_t RunDone() {
    const bool has_any =
        has_done_.load(std::memory_order_relaxed) || has_waiting_.load(std::memory_order_relaxed);
    return has_any ? RunSome() : 0;
  }
  // Until every job is done, those that done() submits meanwhile included (a chain that does not
  // end is cut); then nothing is taken any more.
  void Finish();
  // The same within a time: what is not back then is given up as by Close.  False: something runs.
  bool FinishWithin(std::chrono::nanoseconds most);
  // Nothing is taken any more and what waits is given up; what runs is not waited for.  True:
  // something runs.
  bool Close();
  // Submitted and not yet done.
  size_t Pending() const;

 private:
  struct Job {
    Function work;
    Function done;
  };
  Status Take(Function work, Function done, size_t most);
  void StartThreadIfNeeded();
  size_t RunSome();
  void Run();
  void WorkOne(std::unique_lock<std::mutex>* lock);
  void PutDone(Function done);
  void TakeDone(std::deque<Function>* ready);
  // Does what is there, until then if there is an end.
  void Drain(std::optional<std::chrono::steady_clock::time_point> until);
  bool GoesOn() const { return delay_.goes_on && delay_.goes_on(); }

  static constexpr int kMaxChain = 64;

  const std::string name_;
  const bool manual_;
  SimulatedDelay delay_;  // of a manual one, which has no thread
  const size_t most_threads_;
  const UniqueFd done_fd_;
  std::atomic<bool> has_done_{false};     // or, of a manual one, work
  std::atomic<bool> has_waiting_{false};  // jobs that another thread could begin
  mutable std::mutex mutex_;
  std::condition_variable wake_;      // its thread: there is work
  std::condition_variable finished_;  // Finish: a work() has returned
  std::deque<Job> jobs_;
  std::deque<Function> done_;
  size_t working_ = 0;                           // jobs between the two queues
  std::chrono::steady_clock::time_point begun_;  // the last of them
  bool is_stopping_ = false;
  bool is_closed_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace ppc

#endif  // PPC_DAEMON_EXEC_JOB_QUEUE_H_
