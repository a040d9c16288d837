// SPDX-License-Identifier: Apache-2.0
#include "daemon/cache/evictor.h"

#include <pthread.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <utility>

#include "daemon/base/threads.h"

namespace ppc {

Evictor::Evictor(Backend* backend, Options options, Completions* completions)
    : backend_(backend), options_(std::move(options)), completions_(completions) {
  const int threads = options_.manual ? 0 : std::max(options_.threads, 1);
  try {
    for (int i = 0; i < threads; i++)
      threads_.push_back(StartThread("a thread that drops pages", [this] { Run(); }));
  } catch (...) {
    Stop(/*abandon=*/true);
    throw;
  }
}

Evictor::~Evictor() { Stop(/*abandon=*/true); }

void Evictor::Submit(std::span<const EvictItem> items) {
  {
    const std::lock_guard lock(mutex_);
    for (const EvictItem& item : items) {
      if (items_.size() >= options_.max_items || stopping_) {
        ++stats_.refused;
        continue;
      }
      items_.push_back(item);
    }
  }
  wake_.notify_all();
}

void Evictor::Post(std::function<void()> job) {
  {
    const std::lock_guard lock(mutex_);
    if (!stopping_) jobs_.push_back(std::move(job));
  }
  wake_.notify_one();
}

void Evictor::Stop(bool abandon) {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
    jobs_.clear();
    if (abandon) items_.clear();
  }
  wake_.notify_all();
  for (std::thread& thread : threads_) {
    if (thread.joinable()) thread.join();
  }
}

EvictorStats Evictor::Stats() const {
  const std::lock_guard lock(mutex_);
  EvictorStats stats = stats_;
  stats.queued = items_.size();
  return stats;
}

void Evictor::Run() {
  sigset_t all;
  sigfillset(&all);
  pthread_sigmask(SIG_BLOCK, &all, nullptr);
  pthread_setname_np(pthread_self(), "ppc-evict");
  while (true) {
    {
      std::unique_lock lock(mutex_);
      wake_.wait(lock, [this] { return stopping_ || HasWork(); });
      if (stopping_ && items_.empty()) return;
    }
    RunOne();
  }
}

// A sweep that runs beside an eviction would count what is about to go.
bool Evictor::HasWork() const { return !items_.empty() || (running_ == 0 && !jobs_.empty()); }

bool Evictor::RunOne() {
  std::function<void()> job;
  EvictItem item;
  {
    const std::lock_guard lock(mutex_);
    if (!items_.empty()) {
      item = items_.front();
      items_.pop_front();
      ++running_;
    } else if (running_ == 0 && !jobs_.empty()) {
      job = std::move(jobs_.front());
      jobs_.pop_front();
    } else {
      return false;
    }
  }
  if (job) {
    job();
  } else {
    Execute(item);
    const std::lock_guard lock(mutex_);
    if (--running_ == 0 && !jobs_.empty()) wake_.notify_one();
  }
  return true;
}

void Evictor::Execute(const EvictItem& item) {
  IoResult result{.is_load = false,
                  .group = item.group,
                  .service = ServiceOf(item.payer),
                  .payer = SerialOf(item.payer),
                  .file = item.file,
                  .offset = item.offset,
                  .size = item.size,
                  .cookie = item.cookie,
                  .unmap = item.unmap};
  EvictResult sum;
  for (uint64_t at = item.offset; at < item.offset + item.size;) {
    const uint64_t call_end = (at / kCallBytes + 1) * kCallBytes;
    const uint64_t length = std::min(call_end, item.offset + item.size) - at;
    const Result<EvictResult> one = backend_->Evict(EvictRequest{.file = item.file,
                                                                 .offset = at,
                                                                 .length = length,
                                                                 .unmap = item.unmap,
                                                                 .even_locked = item.even_locked,
                                                                 .drain = item.drain});
    if (!one) {
      result.error = one.error().code;
      break;
    }
    sum += *one;
    // After each call and before its result is reported: between the two a look may take no more
    // than one call's bytes off twice, until the next look.
    if (one->dropped > 0 && options_.on_dropped) options_.on_dropped(one->dropped);
    if (one->dropped > 0 && item.payer != nullptr) item.payer->budget->NoteDropped(one->dropped);
    at += length;
  }
  {
    const std::lock_guard lock(mutex_);
    ++stats_.ranges;
    stats_.errors += result.error != 0;
    stats_ += sum;
  }
  result.ok = sum.dropped;
  result.resident = sum.asked;
  result.mapped = sum.mapped;
  result.failed = sum.dirty + sum.locked + sum.busy;
  completions_->Push(result);
}

}  // namespace ppc
