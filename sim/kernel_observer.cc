// SPDX-License-Identifier: Apache-2.0
// Owns the events of a stock kernel's page cache as the observer's BPF programs form them: reads
// and faults are positions, fault-around's 64 KiB included; insertions, also by the kernel's own
// read-ahead, are misses that are not the process's own; both are merged up to 1 MiB.
#include <utility>

#include "sim/kernel.h"

namespace ppc::sim {
namespace {

constexpr uint64_t kGatherBytes = 1 << 20;
constexpr uint64_t kRunNs = 1'000'000;      // later insertions belong to another request
constexpr uint64_t kReturnNs = 10'000'000;  // back at the beginning of a file

}  // namespace

void Kernel::Tell(const Watched& reader, EventKind kind, uint8_t flags, uint64_t offset,
                  uint64_t end) {
  Event event = reader.who;
  event.offset = offset;
  event.length = end - offset;
  event.time_ns = scheduler_->NowNs();
  event.kind = kind;
  event.flags = flags;
  Queue(reader.mount, event);
}

Kernel::Watched& Kernel::WatchedOf(const Thread* thread, const CacheFile* file) {
  Watched& reader = watched_[{file->number, thread->tid}];
  reader.who.file = file->number;
  reader.mount = file->mount;
  reader.who.start_ns = thread->process->start_ns;
  reader.who.tgid = thread->process->pid;
  reader.who.tid = thread->tid;
  return reader;
}

void Kernel::FlushWatched() {
  for (auto& [key, reader] : watched_) {
    if (reader.end > reader.first) {
      Tell(reader, EventKind::kAccess, reader.flags, reader.first, reader.end);
    }
    reader.first = reader.end = 0;
    FlushInsertions(&reader);
  }
}

void Kernel::FlushInsertions(Watched* reader) {
  if (reader->miss_to > reader->miss_end) {
    Tell(*reader, reader->miss_kind, kEventNotUser, reader->miss_end, reader->miss_to);
  }
  reader->miss_end = reader->miss_to;
}

void Kernel::NoteAccess(const Thread* thread, const CacheFile* file, uint32_t first_page,
                        uint32_t end_page, uint8_t flags) {
  const uint64_t offset = first_page * kPage;
  const uint64_t end = end_page * kPage;
  Watched& reader = WatchedOf(thread, file);
  const uint64_t now = scheduler_->NowNs();
  const bool is_back = now - std::exchange(reader.time_ns, now) >= kReturnNs && offset == 0;
  FlushInsertions(&reader);
  if (devices_[file->mount].options.trace) {
    if (reader.end > reader.first && reader.flags == flags && offset >= reader.first &&
        offset <= reader.end && end - reader.first <= kGatherBytes) {
      reader.end = std::max(reader.end, end);
    } else if (offset < reader.first || end > reader.end) {
      if (reader.end > reader.first) {
        Tell(reader, EventKind::kAccess, reader.flags, reader.first, reader.end);
      }
      reader.first = offset;
      reader.end = end;
      reader.flags = flags;
    }
  }
  if (!devices_[file->mount].options.progress) return;
  if (reader.is_reported && !is_back && offset / beacon_ == reader.reported / beacon_ &&
      end <= reader.reported_end + beacon_) {
    return;
  }
  reader.is_reported = true;
  reader.reported = offset;
  reader.reported_end = end;
  Tell(reader, EventKind::kProgress, flags, offset, end);
}

void Kernel::NoteInsertion(const Thread* thread, const CacheFile* file, uint32_t first_page,
                           uint32_t end_page) {
  const uint64_t offset = first_page * kPage;
  const uint64_t end = end_page * kPage;
  Watched& reader = WatchedOf(thread, file);
  const uint64_t now = scheduler_->NowNs();
  const bool is_run = now - std::exchange(reader.time_ns, now) < kRunNs;
  if (is_run && reader.has_missed && offset == reader.miss_to &&
      end - reader.miss_end <= kGatherBytes) {
    reader.miss_to = end;
    return;
  }
  FlushInsertions(&reader);
  reader.has_missed = true;
  reader.miss_kind = thread->faults ? EventKind::kMissFault : EventKind::kMissRead;
  reader.miss_end = reader.miss_to = end;
  Tell(reader, reader.miss_kind, kEventNotUser, offset, end);
}

}  // namespace ppc::sim
