// SPDX-License-Identifier: Apache-2.0
#include "daemon/exec/event_intake.h"

#include <unistd.h>

#include <algorithm>
#include <span>
#include <utility>

namespace ppc {
namespace {

// For the policy; what is known of its reader is still to be filled in.
miss_io ToMiss(const Event& event, const FileCopy& file) {
  return miss_io{.path = file.path.c_str(),
                 .offset = event.offset,
                 .size = event.length,
                 .pid = event.tgid,
                 .tid = event.tid,
                 .file = file.file,
                 .open_id = event.open_id,
                 .kind = static_cast<uint32_t>(event.kind),
                 .flags = event.flags,
                 .start_ns = event.start_ns,
                 .cgroup_id = event.cgroup_id,
                 .time_ns = event.time_ns,
                 .file_bytes = file.bytes};
}

}  // namespace

EventIntake::EventIntake(Parts parts, Options options)
    : parts_(parts), options_(options), own_tgid_(getpid()), aggregator_(kBatch), batch_(kBatch) {}

size_t EventIntake::DrainBatch() {
  const size_t drained = parts_.backend->Drain(batch_);
  if (drained == 0) return 0;
  stats_.events += drained;
  const auto end = std::remove_if(batch_.begin(), batch_.begin() + static_cast<long>(drained),
                                  [this](const Event& e) { return e.tgid == own_tgid_; });
  const auto kept = static_cast<size_t>(end - batch_.begin());
  stats_.own_events += drained - kept;
  const std::span<Event> events(batch_.data(), kept);
  if (parts_.recorder != nullptr)
    parts_.recorder->Add(events, parts_.files, parts_.backend->NowNs());
  BeginBatch();
  for (const Event& event : aggregator_.Merge(events)) Dispatch(event);
  EndBatch();
  parts_.files->Trim();
  return drained;
}

void EventIntake::BeginBatch() {
  ++batch_number_;
  batch_demand_ = 0;
  batch_is_above_ = false;
  batch_ns_ = parts_.backend->NowNs();
}

void EventIntake::EndBatch() {
  AskForFiles();
  if (batch_is_above_) parts_.lists->AskForEvictions();
  if (batch_demand_ > 0) parts_.loader->NoteDemand(batch_demand_);
}

const FileCopy* EventIntake::KnownFileOf(uint64_t file) {
  FileCopy& recent = recent_files_[file % kRecentFiles];
  if (recent.file == file && batch_ns_ < recent.fresh_until_ns) return &recent;
  recent.file = 0;
  const bool is_known = options_.manual ? parts_.files->Copy(file, batch_ns_, &recent)
                                        : parts_.files->Peek(file, batch_ns_, &recent);
  return is_known ? &recent : nullptr;
}

void EventIntake::LookUpFile(uint64_t file) {
  if (asked_files_.insert(file).second) wanted_files_.push_back(file);
}

// Several files a job: waking the worker, and being woken by it, costs more than a look-up that
// does not wait.  One that waits, for a disk or a server, does not keep the answers before it.
void EventIntake::AskForFiles() {
  for (size_t at = 0; at < wanted_files_.size(); at += kFilesPerJob) {
    const auto first = wanted_files_.begin() + static_cast<std::ptrdiff_t>(at);
    const size_t count = std::min(kFilesPerJob, wanted_files_.size() - at);
    const std::vector<uint64_t> files(first, first + static_cast<std::ptrdiff_t>(count));
    const auto look = [this, files] {
      for (const uint64_t file : files) {
        parts_.files->Renew(file);
        parts_.control->Tell([this, file] { LearnFile(file); });
      }
    };
    if (parts_.control->Submit(look, nullptr)) continue;
    // Too much waits already: they are asked for again when their events are the next ones.
    for (const uint64_t file : files) asked_files_.erase(file);
  }
  wanted_files_.clear();
}

void EventIntake::LearnFile(uint64_t file) {
  asked_files_.erase(file);
  gone_files_.insert(file);  // unless it is known now
  NoteAnswer();
}

// The files of the events behind one that waits are looked up with its own.
void EventIntake::LookUpAhead(const Event& event) {
  if (!options_.manual && KnownFileOf(event.file) == nullptr) LookUpFile(event.file);
}

// At most what the kernel read: it rounds outward to the demand window.  Too much is put right
// by looking (ResidencyScan), too little would overfill the machine.
uint64_t EventIntake::ReadForMiss(const Event& event) const {
  const uint64_t window = std::max(options_.window_bytes, kPageBytes);
  const uint64_t end = (event.offset + event.length + window - 1) / window * window;
  return end - event.offset / window * window;
}

void EventIntake::Dispatch(const Event& event) {
  if ((event.flags & kEventLost) != 0) NoteLoss();
  if (!held_.Holds(event.tgid) && Deliver(event, nullptr)) return;
  ++stats_.held;
  const auto ask = [this](const Event& next) { LookUpAhead(next); };
  const std::optional<int> loser = held_.Add(event, batch_ns_, ask);
  if (loser != event.tgid) parts_.backend->KeepName(event.file);
  if (!loser) return;
  ++stats_.held_lost;
  has_lost_ = true;
  if (lost_of_.size() < kMaxLosers) {
    lost_of_.insert(*loser);
  } else {
    lost_of_.clear();
    NoteLoss();
  }
}

// Events of unknown processes were lost.  The events that wait came before.
void EventIntake::NoteLoss() {
  ++stats_.lost_marks;
  has_lost_ = true;
  held_.MarkLoss(batch_ns_);
  std::erase_if(lost_of_, [this](int tgid) { return !held_.Holds(tgid); });
}

// Whether events of its process, or of unknown ones, were lost that its service has not been told
// of. A stranger's lost events do not concern a service.
bool EventIntake::TakeLoss(int tgid, const Arrival& arrival, Service* service) {
  const bool is_own = !lost_of_.empty() && lost_of_.erase(tgid) != 0;
  // A service that its reader begins was installed after its first events had come, and what was
  // lost right before them may have been its own.
  const bool begins = service->is_auto || service->told.is_open();
  if (!std::exchange(service->has_begun, true) && begins) {
    service->loss_told_ns =
        std::min(service->loss_told_ns, arrival.came_ns - std::min(arrival.came_ns, kNearLossNs));
  }
  const uint64_t told_ns =
      std::exchange(service->loss_told_ns, std::max(service->loss_told_ns, arrival.lost_ns));
  return told_ns < arrival.lost_ns || is_own;
}

void EventIntake::ReleaseHeld() {
  if (held_.empty()) return;
  BeginBatch();
  held_.Release(
      batch_ns_,
      [this](const Event& event, const Arrival& arrival) { return Deliver(event, &arrival); },
      [this](const Event& event) { LookUpAhead(event); });
  EndBatch();
}

void EventIntake::ReleaseAnswered() {
  if (!std::exchange(has_answer_, false)) return;
  ReleaseHeld();
  gone_files_.clear();
}

// False: it has to wait, whose it is or of which file is being looked up.
bool EventIntake::Deliver(const Event& event, const Arrival* held) {
  const FileCopy* file = KnownFileOf(event.file);
  if (file == nullptr && !options_.manual && !gone_files_.contains(event.file)) {
    LookUpFile(event.file);
    return false;
  }
  if (file == nullptr) {
    ++stats_.unresolved;
    return true;
  }
  const Reader* reader =
      parts_.services->ReaderOf(event.tgid, event.start_ns, event.cgroup_id, batch_ns_);
  if (reader == nullptr) return false;
  Service* service = parts_.services->Of(*reader);
  const bool may_be_taken = service->is_guess || (IsMiss(event.kind) && service->told.is_open());
  if (may_be_taken && parts_.autos != nullptr &&
      parts_.autos->Takes(event, file->bytes, file->path, *service)) {
    return false;
  }
  miss_io miss = ToMiss(event, *file);
  if (has_lost_) [[unlikely]] {
    const Arrival arrival = held != nullptr ? *held : held_.ArrivalAt(batch_ns_);
    if (TakeLoss(event.tgid, arrival, service)) miss.flags |= PPC_F_LOST;
  }
  miss.service = service->id.empty() ? -1 : static_cast<int32_t>(service->number);
  miss.xpu = reader->xpu.xpu;
  const bool is_stranger = service->id.empty() && parts_.services->HasStarted();
  if (is_stranger) ++stats_.strangers;
  if (!is_stranger && parts_.guard != nullptr) TellGuard(event, *service, file->bytes);
  if ((event.flags & (kEventNotUser | kEventMmap)) == (kEventNotUser | kEventMmap))
    service->populated_bytes += event.length;
  if ((event.flags & kEventNotUser) == 0) ++service->own_accesses;
  if (IsMiss(event.kind)) {
    HandleMiss(event, service, &miss);
    return true;
  }
  const bool is_progress = event.kind == EventKind::kProgress;
  service->has_moved = true;
  if (is_progress && !tells_progress_) return true;  // for the guard alone
  ++(is_progress ? stats_.progress : stats_.accesses);
  parts_.host->Event(miss);
  if (is_progress && service->looked_batch != batch_number_) EvictFor(service, &miss);
  return true;
}

void EventIntake::TellGuard(const Event& event, const Service& service, uint64_t file_bytes) {
  if ((event.flags & kEventDirect) != 0) return;
  if (event.kind != EventKind::kProgress && event.kind != EventKind::kAccess)
    return TellGuardOfMiss(event, service, file_bytes);
  const uint64_t at = event.offset + std::max<uint64_t>(event.length, 1) - 1;
  parts_.guard->NoteHit(GuardSlot(service), event.file, file_bytes, event.offset, at, batch_ns_);
}

void EventIntake::TellGuardOfMiss(const Event& event, const Service& service, uint64_t file_bytes) {
  if (event.kind == EventKind::kClose) return;
  Guard::ReaderAccess access{.file = event.file,
                             .file_bytes = file_bytes,
                             .offset = event.offset,
                             .length = event.length,
                             .is_miss = IsMiss(event.kind),
                             .is_open = event.kind == EventKind::kOpen};
  if (access.is_miss) {
    const uint64_t window = std::max(options_.window_bytes, kPageBytes);
    access.offset = event.offset / window * window;
    access.length =
        std::min(ReadForMiss(event), std::max(file_bytes, access.offset + 1) - access.offset);
  }
  parts_.guard->NoteAccess(GuardSlot(service), access, batch_ns_);
}

void EventIntake::HandleMiss(const Event& event, Service* service, miss_io* miss) {
  ++stats_.misses;
  service->empty_epoch = 0;  // it waits for its data: the policy is asked at once
  stats_.miss_bytes += event.length;
  batch_demand_ += event.length;
  parts_.demand->Add(batch_ns_, event.length);
  parts_.own_cache->fetch_add(ReadForMiss(event), std::memory_order_relaxed);
  if (service->payer->rate != nullptr) service->payer->rate->Note(batch_ns_, ReadForMiss(event));
  if (batch_ns_ >= service->missed_ns + kMissNs) {
    service->missed_ns = batch_ns_;
    parts_.loader->NoteMiss(service->number);
  }
  EvictFor(service, miss);
  parts_.lists->SubmitLoads(parts_.host->Prefetch(miss));
}

// A policy that plans decides by where its readers are: it is asked when it knows all events that
// are there.
void EventIntake::EvictFor(Service* service, miss_io* event) {
  if (!parts_.host->Has(Hook::kEvict)) return;
  const bool waits = parts_.host->Has(Hook::kPlan);
  if (waits && std::exchange(service->looked_batch, batch_number_) == batch_number_) return;
  if (!parts_.services->IsAbove(service) || !parts_.residency_scan->IsKnown()) return;
  if (waits) {
    batch_is_above_ = true;
  } else {
    parts_.lists->AskForEvictions(event);
  }
}

void EventIntake::CatchUp(std::function<void()> next, std::optional<int> service) {
  for (int i = 0; i < kMaxCatchUp && DrainBatch() == kBatch; ++i) {
  }
  if (parts_.autos != nullptr) parts_.autos->Decide();
  if (options_.manual || !MustWait(service)) return next();
  const uint64_t until = parts_.backend->NowNs() + kMaxPendingNs;
  const auto message =
      std::make_shared<PendingMessage>(PendingMessage{std::move(next), service, until});
  pending_.push_back(message);
  WhenReadersAreKnown(message);  // which may take it out of the list
}

// Whether a process waits that may go on soon, and whose events a message about the service must
// come after: one that hangs, or is another tenant's, must not hold up every message.
bool EventIntake::MustWait(std::optional<int> service) const {
  const uint64_t now = parts_.backend->NowNs();
  return held_.HoldsSince(now - std::min(now, kMaxPendingNs), [&](int tgid) {
    return !service || parts_.services->MayBeOf(tgid, *service);
  });
}

// Behind the look-ups of files and readers that are under way.  They may make others necessary.
void EventIntake::WhenReadersAreKnown(const std::shared_ptr<PendingMessage>& message) {
  if (!message->next) return;
  ReleaseAnswered();
  const auto again = [this, message] { WhenReadersAreKnown(message); };
  const auto readers = [this, message, again] {
    if (!parts_.lookups->Submit(nullptr, again)) message->until_ns = 0;
  };
  const bool waits = MustWait(message->service) && message->rounds-- > 0;
  if (waits && parts_.control->Submit(nullptr, readers)) return;
  std::erase(pending_, message);
  std::exchange(message->next, nullptr)();
}

// Answers the message although a reader is not known yet.
void EventIntake::ExpirePendingMessages(uint64_t now_ns) {
  for (const std::shared_ptr<PendingMessage>& message : std::vector(pending_)) {
    if (now_ns < message->until_ns) continue;
    message->rounds = 0;
    WhenReadersAreKnown(message);
  }
}

Aggregator::Aggregator(size_t max_batch) { out_.reserve(max_batch); }

bool Aggregator::Continues(const Event& before, const Event& next) {
  // A lost event between the two may have been anything.
  return before.tid == next.tid && before.file == next.file && before.open_id == next.open_id &&
         before.kind == next.kind && before.flags == (next.flags & ~kEventLost) &&
         (next.flags & kEventLost) == 0 && before.offset + before.length == next.offset;
}

std::span<const Event> Aggregator::Merge(std::span<Event> batch) {
  // Rings are per CPU; a thread that moved left its events in two of them.
  const auto earlier = [](const Event& a, const Event& b) {
    return a.time_ns != b.time_ns ? a.time_ns < b.time_ns : a.offset < b.offset;
  };
  if (!std::is_sorted(batch.begin(), batch.end(), earlier))
    std::sort(batch.begin(), batch.end(), earlier);
  out_.clear();
  ++batch_;
  for (const Event& event : batch) {
    if (!IsMiss(event.kind)) {
      out_.push_back(event);
      continue;
    }
    const uint64_t key = (event.file * 0x9e3779b97f4a7c15ULL) ^
                         (static_cast<uint64_t>(event.tid) * 0xff51afd7ed558ccdULL);
    Slot& slot = slots_[(key >> 32) % kSlots];
    if (slot.batch == batch_ && Continues(out_[slot.index], event)) {
      out_[slot.index].length += event.length;
      out_[slot.index].time_ns = event.time_ns;
      ++merged_;
      continue;
    }
    slot = Slot{batch_, out_.size()};
    out_.push_back(event);
  }
  return out_;
}

}  // namespace ppc
