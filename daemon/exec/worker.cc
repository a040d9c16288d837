// SPDX-License-Identifier: Apache-2.0
#include "daemon/exec/worker.h"

#include <pthread.h>
#include <sys/eventfd.h>

#include <cerrno>
#include <iterator>
#include <system_error>
#include <utility>

#include "daemon/base/threads.h"

namespace ppc {

Worker::Worker(std::string name, bool manual, Pace pace)
    : name_(std::move(name)),
      manual_(manual),
      pace_(std::move(pace)),
      done_fd_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {}

Worker::~Worker() {
  {
    const std::lock_guard lock(mutex_);
    is_closed_ = is_stopping_ = true;
  }
  wake_.notify_all();
  if (thread_.joinable()) thread_.join();
}

Status Worker::Submit(Function work, Function done) {
  {
    const std::lock_guard lock(mutex_);
    if (is_closed_) return Error{ESHUTDOWN, "the policy is being removed"};
    if (jobs_.size() + done_.size() >= kMaxJobs) {
      return Error{EAGAIN, std::to_string(kMaxJobs) + " jobs wait for " + name_ + " already"};
    }
    try {
      if (!manual_ && !thread_.joinable()) thread_ = StartThread(name_, [this] { Run(); });
    } catch (const std::system_error& error) {
      return Error{error.code().value(), error.what()};
    }
    jobs_.push_back(Job{std::move(work), std::move(done)});
  }
  wake_.notify_one();
  if (manual_) {
    has_done_.store(true, std::memory_order_release);
    (void)eventfd_write(done_fd_.Get(), 1);  // somebody must come and do it
  }
  return Ok();
}

// Takes the first job over into the list of those that are to be told.
void Worker::WorkOne(std::unique_lock<std::mutex>* lock) {
  Job job = std::move(jobs_.front());
  jobs_.pop_front();
  works_ = true;
  lock->unlock();
  if (pace_.before) pace_.before();
  if (job.work) job.work();
  job.work = nullptr;  // what it holds goes here, not on the executor's thread
  lock->lock();
  works_ = false;
  if (!job.done) return;
  done_.push_back(std::move(job.done));
  has_done_.store(true, std::memory_order_release);
  if (!manual_) (void)eventfd_write(done_fd_.Get(), 1);
}

void Worker::Run() {
  pthread_setname_np(pthread_self(), name_.c_str());
  std::unique_lock lock(mutex_);
  for (;;) {
    wake_.wait(lock, [this] { return is_stopping_ || !jobs_.empty(); });
    if (jobs_.empty()) return;
    WorkOne(&lock);
    finished_.notify_all();
  }
}

void Worker::ClearWake() {
  eventfd_t ignored = 0;
  (void)eventfd_read(done_fd_.Get(), &ignored);
}

void Worker::TakeDone(std::deque<Function>* ready) {
  std::move(done_.begin(), done_.end(), std::back_inserter(*ready));
  done_.clear();
}

size_t Worker::RunDone() {
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

void Worker::Drain(std::optional<std::chrono::steady_clock::time_point> until) {
  pace_ = {};  // who waits has no turns to let pass
  const auto is_idle = [this] { return manual_ || (jobs_.empty() && !works_); };
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

void Worker::Finish() {
  Drain(std::nullopt);
  (void)Close();
}

bool Worker::FinishWithin(std::chrono::nanoseconds most) {
  Drain(std::chrono::steady_clock::now() + most);
  return !Close();
}

bool Worker::Close() {
  std::deque<Job> jobs;  // what they hold goes without the lock
  const std::lock_guard lock(mutex_);
  is_closed_ = true;
  jobs.swap(jobs_);
  return works_;
}

size_t Worker::Pending() const {
  const std::lock_guard lock(mutex_);
  return jobs_.size() + done_.size() + (works_ ? 1 : 0);
}

}  // namespace ppc
