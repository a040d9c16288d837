// SPDX-License-Identifier: Apache-2.0
// The readers of simulator.h, and what the kernel tells of them.
#include <algorithm>
#include <tuple>
#include <utility>

#include "tests/policy/simulator.h"

namespace ppc::test {
namespace {

constexpr uint64_t kMostChunk = 1 << 20;  // that a reader takes at once

}  // namespace

miss_io Simulator::EventOf(const Reader& r, uint32_t kind, uint64_t file, uint64_t offset,
                           uint64_t bytes) {
  miss_io e = Event(kind, file, offset, bytes, r.pid);
  e.xpu = r.xpu;
  e.service = r.service;
  e.flags = r.mapped ? PPC_F_MMAP : 0;
  return e;
}

void Simulator::TellLate(const Reader& r, uint64_t file, uint64_t page, uint64_t age_ms) {
  events_.push_back(EventOf(r, PPC_PROGRESS, file, page * kPage, kPage));
  events_.back().time_ns -= age_ms * kMsNs;
}

void Simulator::Begin(Reader* r) {
  const auto threads = std::count_if(readers.begin(), readers.end(), [&](const Reader& other) {
    return other.pid == r->pid && other.task != nullptr;
  });
  r->task = std::make_shared<ReaderTask>(machine_, r->pid, r->pid + 10000 * int(threads));
  who_[r->pid] = {r->xpu, r->service};
  r->task->fiber = machine_->scheduler->Spawn([this, task = r->task.get()] { RunReader(task); });
}

// In a fiber; readers may move while it waits.
void Simulator::RunReader(ReaderTask* task) {
  const auto reader = [&]() -> Reader& {
    return *std::ranges::find(readers, task, [](const Reader& r) { return r.task.get(); });
  };
  const auto sleep_until = [&](uint64_t ns) {
    while (machine_->scheduler->NowNs() < ns) machine_->scheduler->SleepUntil(ns);
  };
  sleep_until(kStartNs + reader().start_ms * kMsNs);
  while (!reader().finished()) {
    const Access a = reader().accesses[reader().at];
    sleep_until(kStartNs + a.not_before_ms * kMsNs);
    const uint64_t rate = reader().bytes_per_ms;
    const uint64_t most = std::clamp(rate / kPage * kPage, kPage, kMostChunk);
    const uint64_t bytes = std::min(most, a.size - reader().done);
    const uint64_t from_ns = machine_->scheduler->NowNs();
    Take(task, reader(), a, bytes);
    const uint64_t taken_ns = machine_->scheduler->NowNs();
    task->stall_ns += taken_ns - from_ns;
    Reader& r = reader();
    r.stall_ms = task->stall_ns / kMsNs;
    r.done += bytes;
    if (r.done >= a.size) {
      r.done = 0;
      r.at++;
    }
    if (!r.finished()) sleep_until(taken_ns + bytes * kMsNs / rate);  // its device takes it
  }
  reader().end_ms = step_;
  task->CloseFiles(&machine_->kernel);
}

// `r` may move once it waits.
void Simulator::Take(ReaderTask* task, const Reader& r, const Access& a, uint64_t bytes) {
  if ((a.flags & PPC_F_LOST) != 0) is_next_lost_ = true;
  if ((a.flags & PPC_F_DIRECT) != 0) {
    if (r.done != 0) return;
    events_.push_back(EventOf(r, PPC_OPEN, a.file, 0, 0));
    events_.back().flags |= PPC_F_DIRECT;
    return;
  }
  sim::Kernel& kernel = machine_->kernel;
  sim::OpenFile* const open = task->Open(&kernel, cached_.at(a.file));
  if ((a.flags & PPC_F_NOT_USER) != 0) {
    kernel.Populate(&task->thread, open, a.offset + r.done, bytes);
  } else if (r.mapped) {
    kernel.Access(&task->thread, open, a.offset + r.done, bytes);
  } else {
    kernel.Read(&task->thread, open, a.offset + r.done, bytes);
  }
}

// Kinds and flags are those of ppc.h.
void Simulator::TakeEvents() {
  std::deque<ppc::Event>& told = machine_->kernel.device(0).events;
  for (const ppc::Event& event : told) {
    miss_io e = Event(static_cast<uint32_t>(event.kind), numbers_[event.file - 1], event.offset,
                      event.length, event.tgid);
    std::tie(e.xpu, e.service) = who_[event.tgid];
    e.tid = event.tid;
    e.open_id = event.open_id;
    e.time_ns = event.time_ns;
    e.flags = event.flags | (event.kind == EventKind::kMissFault ? PPC_F_MMAP : 0);
    if (std::exchange(is_next_lost_, false)) e.flags |= PPC_F_LOST;
    events_.push_back(e);
  }
  told.clear();
}

}  // namespace ppc::test
