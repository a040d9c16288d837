// SPDX-License-Identifier: Apache-2.0
#include "daemon/exec/job_queue.h"

#include <pthread.h>
#include <sys/eventfd.h>

#include <cerrno>
#include <cstdint>
#include <iterator>
#include <system_error>
#include <utility>

#include "daemon/base/threads.h"

namespace ppc {

JobQueue::JobQueue(std::string name, bool manual, SimulatedDelay delay, size_t most_threads)
    : name_(std::move(name)),
      manual_(manual),
      delay_(std::move(delay)),
      most_threads_(most_threads),
      done_fd_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {}

JobQueue::~JobQueue() {
  {
    const std::lock_guard lock(mutex_);
    is_closed_ = is_stopping_ = true;
  }
  wake_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

Status JobQueue::Submit(Function work, Function done) {
  return Take(std::move(work), std::move(done), kMaxJobs);
}

Status JobQueue::Continue(Function work, Function done) {
  return Take(std::move(work), std::move(done), SIZE_MAX);
}

Status JobQueue::Take(Function work, Function done, size_t most) {
  {
    const std::lock_guard lock(mutex_);
    if (is_closed_) return Error{ESHUTDOWN, "the policy is being removed"};
    if (jobs_.size() + done_.size() >= most) {
      return Error{EAGAIN, std::to_string(kMaxJobs) + " jobs wait for " + name_ + " already"};
    }
    jobs_.push_back(Job{std::move(work), std::move(done)});
    has_waiting_.store(most_threads_ > 1, std::memory_order_relaxed);
    try {
      StartThreadIfNeeded();
    } catch (const std::system_error& error) {
      jobs_.pop_back();
      if (jobs_.empty()) has_waiting_.store(false, std::memory_order_relaxed);
      return Error{error.code().value(), error.what()};
    }
  }
  wake_.notify_one();
  if (manual_) {
    has_done_.store(true, std::memory_order_release);
    (void)eventfd_write(done_fd_.Get(), 1);  // wakes the executor to run it
  }
  return Ok();
}

// mutex_ held.  Throws where the first thread cannot be started.
void JobQueue::StartThreadIfNeeded() {
  if (manual_ || jobs_.empty() || is_stopping_) return;
  const bool are_stuck = working_ == threads_.size() && threads_.size() < most_threads_ &&
                         std::chrono::steady_clock::now() >= begun_ + kStuck;
  if (!threads_.empty() && !are_stuck) return;
  try {
    threads_.push_back(StartThread(name_, [this] { Run(); }));
  } catch (const std::system_error&) {
    if (threads_.empty()) throw;
  }
}

// Takes the first job over into the list of those that are to be told.
void JobQueue::WorkOne(std::unique_lock<std::mutex>* lock) {
  Job job = std::move(jobs_.front());
  jobs_.pop_front();
  if (jobs_.empty()) has_waiting_.store(false, std::memory_order_relaxed);
  ++working_;
  begun_ = std::chrono::steady_clock::now();
  lock->unlock();
  if (manual_ && delay_.before) delay_.before();
  if (job.work) job.work();
  job.work = nullptr;  // what it holds goes here, not on the executor's thread
  lock->lock();
  --working_;
  if (job.done) PutDone(std::move(job.done));
}

// mutex_ held.
void JobQueue::PutDone(Function done) {
  done_.push_back(std::move(done));
  // Once until RunDone has been there, which clears the wake-up before it looks.
  const bool is_told = has_done_.exchange(true, std::memory_order_acq_rel);
  if (!manual_ && !is_told) (void)eventfd_write(done_fd_.Get(), 1);
}

void JobQueue::Tell(Function done) {
  const std::lock_guard lock(mutex_);
  PutDone(std::move(done));
}

void JobQueue::Run() {
  pthread_setname_np(pthread_self(), name_.c_str());
  std::unique_lock lock(mutex_);
  for (;;) {
    wake_.wait(lock, [this] { return is_stopping_ || !jobs_.empty(); });
    if (jobs_.empty()) return;
    WorkOne(&lock);
    finished_.notify_all();
  }
}

void JobQueue::ClearWake() {
  eventfd_t ignored = 0;
  (void)eventfd_read(done_fd_.Get(), &ignored);
}

void JobQueue::TakeDone(std::deque<Function>* ready) {
  std::move(done_.begin(), done_.end(), std::back_inserter(*ready));
  done_.clear();
}

size_t JobQueue::RunSome() {
  if (has_waiting_.load(std::memory_order_relaxed)) {
    const std::lock_guard lock(mutex_);
    StartThreadIfNeeded();
  }
  if (!has_done_.exchange(false, std::memory_order_acq_rel)) return 0;
  std::deque<Function> ready;
  {
    std::unique_lock lock(mutex_);
    for (size_t left = manual_ ? jobs_.size() : 0; left > 0 && !GoesOn(); --left) {
      TakeDone(&ready);
      WorkOne(&lock);
    }
    if (GoesOn()) {
      has_done_.store(true, std::memory_order_release);
    } else {
      TakeDone(&ready);
    }
  }
  // What they submit has its turn after this one.
  for (const Function& done : ready) done();
  return ready.size();
}

void JobQueue::Drain(std::optional<std::chrono::steady_clock::time_point> until) {
  delay_ = {};  // who waits has no turns to let pass
  const auto is_idle = [this] { return manual_ || (jobs_.empty() && working_ == 0); };
  bool in_time = true;
  for (int chain = 0; in_time && Pending() > 0; ++chain) {
    std::unique_lock lock(mutex_);
    if (chain >= kMaxChain) is_closed_ = true;
    if (until) {
      in_time = finished_.wait_until(lock, *until, is_idle);
    } else {
      finished_.wait(lock, is_idle);
    }
    lock.unlock();
    RunDone();
  }
}

void JobQueue::Finish() {
  Drain(std::nullopt);
  (void)Close();
}

bool JobQueue::FinishWithin(std::chrono::nanoseconds most) {
  Drain(std::chrono::steady_clock::now() + most);
  return !Close();
}

bool JobQueue::Close() {
  std::deque<Job> jobs;  // what they hold goes without the lock
  const std::lock_guard lock(mutex_);
  is_closed_ = true;
  jobs.swap(jobs_);
  return working_ != 0;
}

size_t JobQueue::Pending() const {
  const std::lock_guard lock(mutex_);
  return jobs_.size() + done_.size() + working_;
}

}  // namespace ppc
