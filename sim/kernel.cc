// SPDX-License-Identifier: Apache-2.0
// Owns processes' reads and faults, and their disk requests.
#include "sim/kernel.h"

#include <algorithm>
#include <utility>

namespace ppc::sim {
namespace {

constexpr uint32_t kAroundPages = 16;  // fault-around

}  // namespace

Kernel::Kernel(Scheduler* scheduler, Disk* disk, PageCache* cache, const KernelOptions& options)
    : scheduler_(scheduler),
      disk_(disk),
      cache_(cache),
      options_(options),
      cpus_(scheduler, std::max<uint32_t>(options.cpu.cpus, 1)),
      ra_pages_(static_cast<uint32_t>(options.read_ahead_bytes / kPage)),
      window_(options.window_bytes),
      beacon_(options.beacon_bytes) {}

bool Kernel::Managed(const OpenFile* open) const {
  return !options_.observes && IsAttached(open) && DeviceOf(open).options.managed_readahead &&
         !open->file->is_native;
}

OpenFile* Kernel::Open(Thread* thread, CacheFile* file, bool through_ppc, bool direct) {
  opens_.push_back(std::make_unique<OpenFile>());
  OpenFile* open = opens_.back().get();
  open->file = file;
  open->id = next_open_++;
  open->through_ppc = through_ppc && !options_.observes;
  open->direct = direct;
  if (IsAttached(open) && DeviceOf(open).options.open_close) {
    Emit(thread, open, EventKind::kOpen, 0, 0, 0);
  }
  return open;
}

void Kernel::Close(Thread* thread, OpenFile* open) {
  if (IsAttached(open)) {
    FlushAccess(open);
    if (DeviceOf(open).options.open_close) Emit(thread, open, EventKind::kClose, 0, 0, 0);
  }
  std::erase_if(opens_, [open](const auto& other) { return other.get() == open; });
}

// -------------------------------------------------------------------- requests

uint32_t Kernel::Submit(Thread* thread, CacheFile* file, uint32_t first, uint32_t end, int node,
                        bool by_loader, uint32_t lookahead) {
  const uint32_t most = static_cast<uint32_t>(disk_->options().request_bytes / kPage);
  uint32_t submitted = 0;
  const PayerId payer = thread->process != nullptr ? thread->process->payer : thread->payer;
  end = std::min(end, file->pages);
  for (uint32_t at = first; at < end;) {
    if (!IsAbsent(file, at)) {
      ++at;
      continue;
    }
    const uint32_t number = next_io_++;
    Io& io = ios_[number];
    io.first = file->first + at;
    for (io.pages = 0; at < end && io.pages < most && IsAbsent(file, at); ++at, ++io.pages) {
      cache_->Add(file->first + at, node, by_loader, number, payer);
      PageOf(file, at).readahead = at == lookahead;
    }
    submitted += io.pages;
    if (Watches(file) && !by_loader && thread->process != nullptr) {
      // Page by page: the first is reported at once, the rest together.
      const uint32_t page = io.first - file->first;
      NoteInsertion(thread, file, page, page + 1);
      if (io.pages > 1) NoteInsertion(thread, file, page + 1, page + io.pages);
    }
    // The thread prepares the request, then goes on.
    const uint64_t bytes = io.pages * kPage;
    thread->debt_ns += io.pages * options_.cpu.read_page_ns;
    thread->busy_until_ns =
        std::max(thread->busy_until_ns, cpus_.Reserve(std::exchange(thread->debt_ns, 0)));
    scheduler_->At(thread->busy_until_ns, [this, number, bytes] {
      disk_->Submit(bytes, [this, number] { Answer(number); });
    });
  }
  return submitted;
}

void Kernel::Answer(uint32_t number) {
  const uint64_t delay_ns = IsBad(ios_[number]) ? bad_.delay_ns : 0;
  scheduler_->At(scheduler_->NowNs() + options_.cpu.request_ns + delay_ns, [this, number] {
    const uint64_t pages = ios_[number].pages;
    scheduler_->At(cpus_.Reserve(pages * options_.cpu.complete_page_ns),
                   [this, number] { Complete(number); });
  });
}

bool Kernel::IsBad(const Io& io) const {
  if (scheduler_->NowNs() >= bad_.all_from_ns) return true;
  return io.first < bad_.end && io.first + io.pages > bad_.first;
}

void Kernel::Complete(uint32_t number) {
  const auto it = ios_.find(number);
  const Io io = std::move(it->second);
  ios_.erase(it);
  const bool is_bad = IsBad(io);
  failed_requests_ += is_bad ? 1 : 0;
  for (uint32_t i = io.first; i < io.first + io.pages; ++i) {
    if (is_bad) {
      cache_->ReadFailed(i);
    } else {
      cache_->ReadDone(i);
    }
  }
  for (Fiber* fiber : io.waiters) scheduler_->Wake(fiber);
}

bool Kernel::ReadAlone(Thread* thread, CacheFile* file, uint32_t page) {
  PageOf(file, page).failed = false;
  Submit(thread, file, page, page + 1, thread->process->node, false);
  cpus_.Settle(thread);
  WaitFor(file, page);
  if (!PageOf(file, page).failed) return true;
  ++thread->errors;
  return false;
}

void Kernel::WaitFor(CacheFile* file, uint32_t page) {
  while (PageOf(file, page).state == PageState::kReading) {
    ios_[PageOf(file, page).io].waiters.push_back(scheduler_->Current());
    scheduler_->Wait();
  }
}

// ----------------------------------------------------------- native read-ahead

namespace {

uint32_t NextSize(uint32_t now, uint32_t most) {
  if (now < most / 16) return 4 * now;
  if (now <= most / 2) return 2 * now;
  return most;
}

uint32_t FirstSize(uint32_t request, uint32_t most) {
  uint32_t size = 1;
  while (size < request) size *= 2;
  if (size <= most / 32) return size * 4;
  if (size <= most / 4) return size * 2;
  return most;
}

}  // namespace

// ondemand_readahead() of 6.1.
void Kernel::OnDemandReadAhead(Thread* thread, OpenFile* open, uint32_t page, uint32_t request,
                               bool hit_marker) {
  uint32_t most = ra_pages_;
  const auto io_pages = static_cast<uint32_t>(disk_->options().request_bytes / kPage);
  if (request > most && io_pages > most) most = std::min(request, io_pages);
  const uint32_t expected = open->ra_start + open->ra_size - open->ra_async;
  bool initial = page == 0;
  if (!initial && (page == expected || page == open->ra_start + open->ra_size)) {
    open->ra_start += open->ra_size;
    open->ra_size = NextSize(open->ra_size, most);
    open->ra_async = open->ra_size;
  } else if (!initial && hit_marker) {
    // Several streams in one file: continue at the next hole.
    uint32_t start = page + 1;
    while (start < open->file->pages && start - page <= most && !IsAbsent(open->file, start)) {
      ++start;
    }
    if (start - page > most) return;
    open->ra_start = start;
    open->ra_size = NextSize(start - page + request, most);
    open->ra_async = open->ra_size;
  } else if (!initial && request <= most && page != open->prev_page &&
             page != open->prev_page + 1) {
    // Random access: only the requested pages.
    Submit(thread, open->file, page, page + request, thread->process->node, false);
    return;
  } else {
    open->ra_start = page;
    open->ra_size = FirstSize(request, most);
    open->ra_async = open->ra_size > request ? open->ra_size - request : open->ra_size;
  }
  if (page == open->ra_start && open->ra_size == open->ra_async) {
    const uint32_t add = NextSize(open->ra_size, most);
    if (open->ra_size + add <= most) {
      open->ra_async = add;
      open->ra_size += add;
    } else {
      open->ra_size = most;
      open->ra_async = most / 2;
    }
  }
  Submit(thread, open->file, open->ra_start, open->ra_start + open->ra_size, thread->process->node,
         false, open->ra_start + open->ra_size - open->ra_async);
}

void Kernel::SyncReadAhead(Thread* thread, OpenFile* open, uint32_t page, uint32_t request) {
  // RFS turns read-ahead off for managed files: only the requested pages.
  if (Managed(open) || ra_pages_ == 0) {
    Submit(thread, open->file, page, page + request, thread->process->node, false);
    return;
  }
  OnDemandReadAhead(thread, open, page, request, false);
}

void Kernel::AsyncReadAhead(Thread* thread, OpenFile* open, uint32_t page, uint32_t request) {
  PageOf(open->file, page).readahead = false;
  if (Managed(open) || ra_pages_ == 0) return;
  OnDemandReadAhead(thread, open, page, request, true);
}

// do_sync_mmap_readahead().
void Kernel::ReadAround(Thread* thread, OpenFile* open, uint32_t page) {
  const uint32_t half = ra_pages_ / 2;
  open->ra_start = page > half ? page - half : 0;
  open->ra_size = ra_pages_;
  open->ra_async = ra_pages_ / 4;
  Submit(thread, open->file, open->ra_start, open->ra_start + open->ra_size, thread->process->node,
         false, open->ra_start + open->ra_size - open->ra_async);
  // The file is shorter than the window, or the window did not include the page.
  if (IsAbsent(open->file, page))
    Submit(thread, open->file, page, page + 1, thread->process->node, false);
}

// ----------------------------------------------------------------------- read()

void Kernel::ReadDirect(Thread* thread, OpenFile* open, uint64_t offset, uint64_t bytes) {
  cpus_.Settle(thread);
  const uint64_t most = disk_->options().request_bytes;
  Fiber* const self = scheduler_->Current();
  uint32_t left = 0;
  for (uint64_t at = offset; at < offset + bytes; at += most) {
    ++left;
    disk_->Submit(std::min(most, offset + bytes - at), [this, self, &left] {
      if (--left == 0) scheduler_->Wake(self);
    });
  }
  cache_->stats().read += bytes;
  while (left > 0) scheduler_->Wait();
  (void)open;
}

void Kernel::Read(Thread* thread, OpenFile* open, uint64_t offset, uint64_t bytes) {
  CacheFile* const file = open->file;
  const uint64_t stop = std::min(offset + bytes, file->bytes);
  if (offset >= stop) return;
  // odirect=auto: bypasses the cache while no policy is attached.
  if (open->direct && !IsAttached(open)) {
    ReadDirect(thread, open, offset, stop - offset);
    return;
  }
  const uint32_t first = PageOfOffset(offset);
  const uint32_t end = PageOfOffset(stop + kPage - 1);
  cpus_.Use(options_.cpu.fault_ns, thread);  // a system call costs about as much
  if (IsAttached(open)) NoticeRead(thread, open, first, end);
  for (uint32_t page = first; page < end; ++page) {
    if (PageOf(file, page).state == PageState::kAbsent && PageOf(file, page).failed) {
      if (!ReadAlone(thread, file, page)) continue;  // EIO; the reader skips the page
    }
    if (IsAbsent(file, page)) SyncReadAhead(thread, open, page, end - page);
    if (PageOf(file, page).readahead) AsyncReadAhead(thread, open, page, end - page);
    if (PageOf(file, page).state == PageState::kReading) {
      cpus_.Settle(thread);
      WaitFor(file, page);
      if (PageOf(file, page).state == PageState::kAbsent) {  // failed, or was reclaimed
        --page;
        continue;
      }
    }
    Page& p = PageOf(file, page);
    p.wanted = true;
    p.read_unused = false;
    if (open->prev_page != page) cache_->MarkAccessed(file->first + page);
    open->prev_page = page;
    cpus_.Use(options_.cpu.copy_page_ns, thread);
  }
  if (Watches(file)) NoteAccess(thread, file, first, end, 0);
}

void Kernel::ReadQuietly(CacheFile* file, uint64_t offset, uint64_t bytes) {
  const uint64_t stop = std::min(offset + bytes, file->bytes);
  Thread thread;
  for (uint32_t page = PageOfOffset(offset); page < PageOfOffset(stop + kPage - 1); ++page) {
    if (IsAbsent(file, page)) Submit(&thread, file, page, page + ra_pages_, 0, false);
    WaitFor(file, page);
  }
}

// ---------------------------------------------------------------------- mapping

// filemap_map_pages(), through RFS's own: leaves out beacons and traced pages.
void Kernel::MapAround(Thread* thread, OpenFile* open, uint32_t page) {
  CacheFile* const file = open->file;
  const uint32_t process = thread->process->slot;
  uint32_t start = page / kAroundPages * kAroundPages;
  uint32_t end = std::min(start + kAroundPages, file->pages);
  if (IsAttached(open) && DeviceOf(open).options.progress) {
    const auto stride = static_cast<uint32_t>(beacon_ / kPage);
    const uint32_t beacon = page / stride * stride;
    start = std::max(start, beacon + 1);
    end = std::min(end, beacon + stride);
  }
  for (uint32_t i = start; i < end; ++i) {
    const Page& p = PageOf(file, i);
    if (p.state != PageState::kUptodate || p.readahead) continue;
    cache_->Map(file->first + i, process);
    thread->debt_ns += options_.cpu.map_page_ns;
  }
  if (Watches(file)) NoteAccess(thread, file, start, end, kEventMmap);
}

bool Kernel::Fault(Thread* thread, OpenFile* open, uint32_t page, bool is_user) {
  CacheFile* const file = open->file;
  const bool ppc = IsAttached(open);
  const bool traced = ppc && DeviceOf(open).options.trace;
  const auto stride = static_cast<uint32_t>(beacon_ / kPage);
  const bool is_beacon = ppc && DeviceOf(open).options.progress && page % stride == 0;
  const uint32_t process = thread->process->slot;
  const auto is_mapped = [&] { return (PageOf(file, page).mapped >> process & 1) != 0; };
  cpus_.Use(options_.cpu.fault_ns, thread);
  thread->faults = true;
  if (!traced && !is_beacon) {
    MapAround(thread, open, page);
    thread->faults = !is_mapped();
    if (!thread->faults) return true;
  }
  if (ppc) NoticeFault(thread, open, page, is_user);
  if (Watches(file)) {
    NoteAccess(thread, file, page, page + 1,
               static_cast<uint8_t>(kEventMmap | (is_user ? 0 : kEventNotUser)));
  }
  bool waited = false;
  while (true) {
    Page& p = PageOf(file, page);
    if (p.state == PageState::kAbsent) {
      ++thread->majflt;
      if (p.failed) {
        if (ReadAlone(thread, file, page)) continue;
        thread->faults = false;
        return false;
      }
      if (Managed(open) || ra_pages_ == 0) {
        Submit(thread, file, page, page + 1, thread->process->node, false);
      } else {
        ReadAround(thread, open, page);
      }
    } else if (p.readahead) {
      AsyncReadAhead(thread, open, page, ra_pages_);
    }
    if (PageOf(file, page).state == PageState::kUptodate) break;
    cpus_.Settle(thread);
    WaitFor(file, page);
    waited = true;
  }
  thread->faults = false;
  cache_->Map(file->first + page, process);
  // The second try, after the wait, uses fault-around.
  if (waited && !traced && !is_beacon) MapAround(thread, open, page);
  return true;
}

void Kernel::Access(Thread* thread, OpenFile* open, uint64_t offset, uint64_t bytes) {
  if (bytes == 0) return;
  CacheFile* const file = open->file;
  const uint32_t process = thread->process->slot;
  const uint32_t first = PageOfOffset(offset);
  const uint32_t end = PageOfOffset(offset + bytes + kPage - 1);
  for (uint32_t page = first; page < end; ++page) {
    // The page may be dropped again before it is touched.
    bool is_there = true;
    while (is_there && (PageOf(file, page).mapped >> process & 1) == 0)
      is_there = Fault(thread, open, page, true);
    if (!is_there) continue;  // the process catches the signal and skips the page
    cache_->Touch(file->first + page, process);
    const uint64_t from = std::max<uint64_t>(offset, uint64_t{page} * kPage);
    const uint64_t to = std::min<uint64_t>(offset + bytes, (uint64_t{page} + 1) * kPage);
    cpus_.Use(options_.cpu.copy_page_ns * (to - from) / kPage, thread);
  }
}

void Kernel::Populate(Thread* thread, OpenFile* open, uint64_t offset, uint64_t bytes) {
  const uint64_t end = std::min(open->file->bytes, bytes + offset) + kPage - 1;
  for (uint32_t page = PageOfOffset(offset); page < PageOfOffset(end); ++page) {
    if ((PageOf(open->file, page).mapped >> thread->process->slot & 1) == 0) {
      (void)Fault(thread, open, page, false);
    }
  }
}

void Kernel::Munmap(Thread* thread, OpenFile* open) {
  cache_->Unmap(open->file->first, open->file->pages, thread->process->slot);
}

}  // namespace ppc::sim
