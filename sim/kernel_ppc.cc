// SPDX-License-Identifier: Apache-2.0
// Owns what RFS adds to the kernel: events, demand window, and the device's LOAD and EVICT.
#include <algorithm>
#include <bit>
#include <utility>

#include "sim/kernel.h"

namespace ppc::sim {
namespace {

constexpr uint64_t kLookNs = 10;  // CPU time to look up a page

}  // namespace

void Kernel::Attach(uint32_t mount, const AttachOptions& options) {
  Device& device = devices_[mount];
  device.is_attached = true;
  device.is_expired = false;
  device.options = options;
  if (options.window_bytes != 0) window_ = options.window_bytes;
  if (options.beacon_bytes != 0) beacon_ = options.beacon_bytes;
  if (options.trace && !std::exchange(flushes_, true)) FlushPeriodically();
}

void Kernel::Detach(uint32_t mount) {
  devices_[mount].is_attached = false;
  devices_[mount].events.clear();
}

void Kernel::Expire(uint32_t mount) {
  devices_[mount].is_expired = devices_[mount].is_attached;
  Detach(mount);
}

bool Kernel::IsTraced() const {
  return std::any_of(devices_.begin(), devices_.end(), [](const Device& device) {
    return device.is_attached && device.options.trace;
  });
}

void Kernel::FlushPeriodically() {
  scheduler_->At(scheduler_->NowNs() + 100'000'000, [this] {
    if (!IsTraced()) {
      flushes_ = false;
      return;
    }
    for (const auto& open : opens_) FlushAccess(open.get());
    FlushWatched();
    FlushPeriodically();
  });
}

void Kernel::Queue(uint32_t mount, const Event& event) {
  Device& device = devices_[mount];
  lot_ = lot_ * 6364136223846793005u + 1442695040888963407u;
  if ((lot_ >> 33) % 100 < options_.lost_in_100) return;
  device.events.push_back(event);
  ++device.queued;
  if (device.wake) device.wake();
}

void Kernel::Emit(Thread* thread, OpenFile* open, EventKind kind, uint8_t flags, uint32_t first,
                  uint32_t pages) {
  Queue(open->file->mount, Event{.file = open->file->number,
                                 .offset = first * kPage,
                                 .length = pages * kPage,
                                 .time_ns = scheduler_->NowNs(),
                                 .start_ns = thread->process->start_ns,
                                 .open_id = open->id,
                                 .tgid = thread->process->pid,
                                 .tid = thread->tid,
                                 .kind = kind,
                                 .flags = flags});
}

void Kernel::EmitAccess(Thread* thread, OpenFile* open, uint8_t flags, uint32_t first,
                        uint32_t pages) {
  constexpr uint64_t kMaxBytes = 16 << 20;
  constexpr uint64_t kMaxNs = 100'000'000;
  Event& pending = open->pending;
  const uint64_t offset = first * kPage;
  const uint64_t end = offset + pages * kPage;
  const uint64_t pending_end = pending.offset + pending.length;
  if (pending.length != 0 && pending.tid == thread->tid && pending.flags == flags &&
      offset >= pending.offset && offset <= pending_end && end - pending.offset <= kMaxBytes &&
      scheduler_->NowNs() - pending.time_ns < kMaxNs) {
    pending.length = std::max(pending_end, end) - pending.offset;
    return;
  }
  FlushAccess(open);
  pending = Event{.file = open->file->number,
                  .offset = offset,
                  .length = end - offset,
                  .time_ns = scheduler_->NowNs(),
                  .start_ns = thread->process->start_ns,
                  .open_id = open->id,
                  .tgid = thread->process->pid,
                  .tid = thread->tid,
                  .kind = EventKind::kAccess,
                  .flags = flags};
}

void Kernel::FlushAccess(OpenFile* open) {
  if (open->pending.length == 0) return;
  Queue(open->file->mount, std::exchange(open->pending, Event{}));
}

bool Kernel::KnowsBeacon(const Thread* thread, OpenFile* open, uint64_t beacon) {
  const uint64_t key = beacon << 32 | static_cast<uint32_t>(thread->process->pid);
  if (std::find(open->beacons.begin(), open->beacons.end(), key) != open->beacons.end())
    return true;
  open->beacons[open->next_beacon++ % open->beacons.size()] = key;
  return false;
}

void Kernel::LoadWindow(Thread* thread, OpenFile* open, uint32_t first, uint32_t end) {
  const auto window = static_cast<uint32_t>(window_ / kPage);
  first = first / window * window;
  end = (end + window - 1) / window * window;
  Submit(thread, open->file, first, end, thread->process->node, false);
}

void Kernel::NoticeRead(Thread* thread, OpenFile* open, uint32_t first, uint32_t end) {
  constexpr uint32_t kMaxPages = (16 << 20) / kPage;
  uint32_t budget = kMaxPages;
  bool missed = false;
  for (uint32_t at = first; at < end;) {
    if (!IsAbsent(open->file, at)) {
      ++at;
      continue;
    }
    const uint32_t start = at;
    while (at < end && IsAbsent(open->file, at)) ++at;
    missed = true;
    Emit(thread, open, EventKind::kMissRead, 0, start, at - start);
    if (Managed(open) && budget > 0) {
      const uint32_t now = std::min(at - start, budget);
      LoadWindow(thread, open, start, start + now);
      budget -= now;
    }
  }
  if (DeviceOf(open).options.trace) {
    EmitAccess(thread, open, missed ? 0 : kEventHit, first, end - first);
  }
  if (DeviceOf(open).options.progress) {
    const bool known = KnowsBeacon(thread, open, (end - 1) * kPage / beacon_);
    if (!known && !missed) {
      Emit(thread, open, EventKind::kProgress, kEventHit, first, end - first);
    }
  }
}

void Kernel::NoticeFault(Thread* thread, OpenFile* open, uint32_t page, bool is_user) {
  const uint8_t who = is_user ? 0 : kEventNotUser;
  if (!IsAbsent(open->file, page)) {
    const auto flags = static_cast<uint8_t>(who | kEventHit | kEventMmap);
    if (DeviceOf(open).options.trace) EmitAccess(thread, open, flags, page, 1);
    if (DeviceOf(open).options.progress && page % (beacon_ / kPage) == 0) {
      Emit(thread, open, EventKind::kProgress, flags, page, 1);
    }
    return;
  }
  Emit(thread, open, EventKind::kMissFault, who, page, 1);
  if (DeviceOf(open).options.trace) {
    EmitAccess(thread, open, static_cast<uint8_t>(who | kEventMmap), page, 1);
  }
  if (Managed(open)) LoadWindow(thread, open, page, page + 1);
}

LoadResult Kernel::Load(const LoadRequest& request, const std::function<bool()>& cancelled) {
  LoadResult result;
  CacheFile* const file = cache_->Find(request.file);
  const uint64_t size = uint64_t{file->pages} * kPage;
  const uint64_t end = std::min(request.offset + request.length, size);
  uint64_t at = request.offset / kPage * kPage;
  while (at < end) {
    if (cancelled()) {
      result.stop = LoadStop::kCancelled;
      return result;
    }
    const uint64_t step_end = std::min(end, (at / kStepBytes + 1) * kStepBytes);
    const uint32_t first = PageOfOffset(at);
    const uint32_t last = PageOfOffset(step_end + kPage - 1);
    std::vector<uint32_t> absent;
    for (uint32_t page = first; page < last; ++page) {
      if (IsAbsent(file, page)) absent.push_back(page);
    }
    Thread thread{.payer = static_cast<PayerId>(request.charge)};
    Submit(&thread, file, first, last, request.node, true);
    // A step without absent pages takes time too: else a policy that repeats it would stop the
    // clock.
    if (absent.empty()) {
      thread.debt_ns += options_.cpu.fault_ns + (last - first) * kLookNs;
      cpus_.Settle(&thread);
    }
    for (const uint32_t page : absent) {
      WaitFor(file, page);
      const bool is_there = PageOf(file, page).state == PageState::kUptodate;
      (is_there ? result.loaded : result.failed) += kPage;
      // The observer drops pages that a failed load leaves without content.
      if (!is_there && options_.observes) PageOf(file, page).failed = false;
    }
    result.submitted += absent.size() * kPage;
    result.resident += (last - first - absent.size()) * kPage;
    result.done += step_end - at;
    at = step_end;
  }
  if (request.offset + request.length > size) result.stop = LoadStop::kEof;
  return result;
}

// Without the module a page can be dropped only through a single process that maps it.
bool Kernel::CanUnmap(const Page& page) const {
  return !options_.observes || std::has_single_bit(page.mapped);
}

EvictResult Kernel::Evict(const EvictRequest& request) {
  EvictResult result;
  CacheFile* const file = cache_->Find(request.file);
  const uint32_t end =
      std::min(PageOfOffset(request.offset + request.length + kPage - 1), file->pages);
  for (uint32_t page = PageOfOffset(request.offset); page < end; ++page) {
    const Page& p = PageOf(file, page);
    if (p.state == PageState::kAbsent) continue;
    result.asked += kPage;
    if (p.state == PageState::kReading) {
      result.busy += kPage;
    } else if (cache_->Drop(file->first + page, request.unmap && CanUnmap(p))) {
      result.dropped += kPage;
    } else {
      result.mapped += kPage;
    }
  }
  return result;
}

}  // namespace ppc::sim
