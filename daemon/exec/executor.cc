// SPDX-License-Identifier: Apache-2.0
#include "daemon/exec/executor.h"

#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <span>

#include "daemon/base/clock.h"

namespace ppc {

Executor::Executor(Parts parts, Options options)
    : parts_(parts),
      options_(options),
      own_tgid_(getpid()),
      stop_fd_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)),
      aggregator_(kBatch),
      batch_(kBatch),
      look_({parts.backend, parts.evictor, parts.files, parts.services, parts.own_cache},
            options.chunk_bytes) {
  AddSource(parts_.completions->fd(), [](short) {});
  AddSource(stop_fd_.Get(), [](short) {});
  AddSource(parts_.background->fd(), [this](short) { parts_.background->ClearWake(); });
}

void Executor::AddSource(int fd, std::function<void(short)> ready) {
  sources_.push_back(Source{fd, std::move(ready)});
}

void Executor::RemoveSource(int fd) {
  std::erase_if(sources_, [fd](const Source& source) { return source.fd == fd; });
}

void Executor::RequestStop() {
  stop_.store(true, std::memory_order_release);
  (void)eventfd_write(stop_fd_.Get(), 1);
}

Executor::End Executor::Run() {
  End end = End::kRunning;
  while (end == End::kRunning) end = RunOnce();
  return end;
}

Executor::End Executor::RunOnce() {
  if (stop_.load(std::memory_order_acquire)) return End::kStopped;
  const size_t drained = DrainBatch();
  HandleCompletions();
  TickIfDue();
  HandleBackground();
  AskForPlan();
  if (parts_.host->IsDropped()) return End::kDropped;
  return WaitForWork(drained);
}

bool Executor::Pump() {
  const size_t drained = DrainBatch();
  const bool has_results = HandleCompletions();
  return HandleBackground() || has_results || drained > 0;
}

void Executor::CatchUp() {
  for (int i = 0; i < kMaxCatchUp && DrainBatch() == kBatch; ++i) {
  }
}

// After events a nap: whoever missed once misses again soon, and being woken for each would
// cost the application more than the event itself.  After a full batch, when there may be more,
// only a look at the other descriptors: events without end must not keep control waiting.
Executor::End Executor::WaitForWork(size_t drained) {
  const bool nap = drained > 0;
  const bool is_full = drained == kBatch;
  const uint64_t now = parts_.backend->NowNs();
  const uint64_t until_tick = next_tick_ns_ > now ? next_tick_ns_ - now : 0;
  pollfds_.clear();
  for (const Source& source : sources_) pollfds_.push_back(pollfd{source.fd, POLLIN, 0});
  const uint64_t longest = nap ? std::min(options_.nap_ns, until_tick) : until_tick;
  const WaitOutcome outcome = parts_.backend->Wait(is_full ? 0 : longest, nap, pollfds_);
  if (!is_full) ++(nap ? stats_.naps : stats_.wakeups);
  if (outcome == WaitOutcome::kExpired) return End::kExpired;
  if (outcome == WaitOutcome::kGone) return End::kGone;
  if (outcome == WaitOutcome::kTimeout && !nap && stats_.ticks % kTicksPerCheck == 0) {
    return CheckAlive();
  }
  if (outcome != WaitOutcome::kOther) return End::kRunning;
  ++plan_epoch_;
  // A handler may add or remove sources: look each up again.
  for (const pollfd& ready : pollfds_) {
    if (ready.revents == 0) continue;
    const auto it = std::find_if(sources_.begin(), sources_.end(),
                                 [&](const Source& source) { return source.fd == ready.fd; });
    if (it == sources_.end()) continue;
    const auto handler = it->ready;
    handler(ready.revents);
  }
  return End::kRunning;
}

// A lease that ran out while we were stopped may have left nothing to poll for.
Executor::End Executor::CheckAlive() {
  const Result<BackendCounters> counters = parts_.backend->Counters();
  if (!counters) return End::kGone;
  return counters->attached ? End::kRunning : End::kExpired;
}

// ---------------------------------------------------------------------- events

void Executor::Record(std::span<const Event> events) {
  for (const Event& event : events) {
    FileCopy file;
    if (!parts_.files->Copy(event.file, parts_.backend->NowNs(), &file)) continue;
    if (std::find(recorded_files_.begin(), recorded_files_.end(), event.file) !=
        recorded_files_.end()) {
      continue;
    }
    recorded_files_.push_back(event.file);
    parts_.recorder->AddFile(LoggedFile{event.file, file.bytes, file.path});
  }
  parts_.recorder->AddEvents(events);
}

size_t Executor::DrainBatch() {
  const size_t drained = parts_.backend->Drain(batch_);
  if (drained == 0) return 0;
  stats_.events += drained;
  const auto end = std::remove_if(batch_.begin(), batch_.begin() + static_cast<long>(drained),
                                  [this](const Event& e) { return e.tgid == own_tgid_; });
  const auto kept = static_cast<size_t>(end - batch_.begin());
  stats_.own_events += drained - kept;
  const std::span<Event> events(batch_.data(), kept);
  if (parts_.recorder != nullptr) Record(events);
  batch_demand_ = 0;
  batch_is_above_ = false;
  batch_ns_ = parts_.backend->NowNs();
  for (const Event& event : aggregator_.Merge(events)) Dispatch(event);
  if (batch_is_above_) AskForEvictions();
  if (batch_demand_ > 0) parts_.loader->NoteDemand(batch_demand_);
  parts_.files->Trim();
  ++plan_epoch_;
  return drained;
}

const FileCopy* Executor::FileOf(uint64_t file) {
  FileCopy& recent = recent_files_[file % kRecentFiles];
  if (recent.file == file && batch_ns_ < recent.fresh_until_ns) return &recent;
  recent.file = 0;
  return parts_.files->Copy(file, batch_ns_, &recent) ? &recent : nullptr;
}

void Executor::FillMiss(const Event& event, const FileCopy& file, miss_io* miss) {
  *miss = miss_io{};
  miss->path = file.path.c_str();
  miss->offset = event.offset;
  miss->size = event.length;
  miss->pid = event.tgid;
  miss->tid = event.tid;
  miss->file = file.file;
  miss->open_id = event.open_id;
  miss->kind = static_cast<uint32_t>(event.kind);
  miss->flags = event.flags;
  miss->start_ns = event.start_ns;
  miss->cgroup_id = event.cgroup_id;
  miss->time_ns = event.time_ns;
  miss->file_bytes = file.bytes;
}

// At most what the kernel read: it rounds outward to the demand window.  Too much is put right
// by looking (CacheLook), too little would overfill the machine.
uint64_t Executor::ReadForMiss(const Event& event) const {
  const uint64_t window = std::max(options_.window_bytes, kPageBytes);
  const uint64_t end = (event.offset + event.length + window - 1) / window * window;
  return end - event.offset / window * window;
}

void Executor::Dispatch(const Event& event) {
  if ((event.flags & kEventLost) != 0) ++stats_.lost_marks;
  const FileCopy* file = FileOf(event.file);
  if (file == nullptr) {
    ++stats_.unresolved;
    return;
  }
  miss_io miss;
  FillMiss(event, *file, &miss);
  Service* service = parts_.services->OfProcess(event.tgid, event.start_ns, event.cgroup_id);
  const bool is_stranger = service->id.empty() && parts_.services->HasStarted();
  miss.service = service->id.empty() ? -1 : static_cast<int32_t>(service->number);
  miss.xpu = PPC_NO_XPU;
  if (is_stranger) {
    ++stats_.strangers;
  } else {
    miss.xpu = parts_.services->XpuOf(service, event.tgid, event.start_ns, batch_ns_).xpu;
  }
  const bool is_progress = event.kind == EventKind::kProgress;
  if (!IsMiss(event.kind)) {
    ++(is_progress ? stats_.progress : stats_.accesses);
    parts_.host->Event(miss);
    if (is_progress) EvictFor(service, &miss);
    return;
  }
  ++stats_.misses;
  stats_.miss_bytes += event.length;
  batch_demand_ += event.length;
  parts_.demand->Add(batch_ns_, event.length);
  parts_.own_cache->fetch_add(ReadForMiss(event), std::memory_order_relaxed);
  if (service->payer->rate != nullptr) {
    service->payer->rate->Note(batch_ns_, ReadForMiss(event));
  }
  EvictFor(service, &miss);
  SubmitLoads(parts_.host->Prefetch(&miss));
}

// A policy that plans decides by where its readers are: it is asked when it knows all events that
// are there.
void Executor::EvictFor(Service* service, miss_io* event) {
  if (!parts_.host->Has(Hook::kEvict) || !parts_.services->IsAbove(service, batch_ns_)) return;
  if (!look_.IsKnown()) return;
  if (parts_.host->Has(Hook::kPlan)) {
    batch_is_above_ = true;
  } else {
    SubmitEvicts(parts_.host->Evict(event));
  }
}

// ----------------------------------------------------------------------- lists

void Executor::TellDevice(uint64_t number, ReadRate* rate) {
  FileCopy file;
  if (parts_.files->Copy(number, parts_.backend->NowNs(), &file))
    rate->SetDevice(BlockDevice{file.dev_major, file.dev_minor});
}

void Executor::SubmitLoads(const RawList& list) {
  stats_.refused_surplus += list.refused;
  if (list.ios.empty()) return;
  loads_.clear();
  for (const ppc_io& io : list.ios) {
    IoRefusal why = IoRefusal::kNone;
    const std::optional<IoRange> range = CheckIo(io, parts_.files, &why);
    ++stats_.refused[static_cast<size_t>(why)];
    if (!range) continue;
    const std::shared_ptr<Payer>& payer = parts_.services->Get(range->service)->payer;
    if (payer->rate != nullptr) TellDevice(range->file, payer->rate.get());
    loads_.push_back(LoadItem{.file = range->file,
                              .offset = range->offset,
                              .size = range->size,
                              .cookie = range->cookie,
                              .group = range->group,
                              .node = parts_.topology->NodeOfXpu(range->xpu),
                              .payer = payer});
  }
  stats_.prefetch_ranges += loads_.size();
  parts_.loader->Submit(loads_, (list.flags & PPC_IOS_REPLACE) != 0);
}

void Executor::SubmitEvicts(const RawList& list) {
  stats_.refused_surplus += list.refused;
  if (list.ios.empty()) return;
  evicts_.clear();
  for (const ppc_io& io : list.ios) {
    IoRefusal why = IoRefusal::kNone;
    const std::optional<IoRange> range = CheckIo(io, parts_.files, &why);
    ++stats_.refused[static_cast<size_t>(why)];
    if (!range) continue;
    evicts_.push_back(EvictItem{.file = range->file,
                                .offset = range->offset,
                                .size = range->size,
                                .cookie = range->cookie,
                                .group = range->group,
                                .unmap = (range->flags & PPC_IO_UNMAP) != 0,
                                .even_locked = (range->flags & PPC_IO_EVEN_LOCKED) != 0,
                                .drain = (range->flags & PPC_IO_DRAIN) != 0});
  }
  stats_.evict_ranges += evicts_.size();
  parts_.evictor->Submit(evicts_);
}

bool Executor::HandleCompletions() {
  results_.clear();
  parts_.completions->Take(&results_);
  for (const IoResult& result : results_) {
    if (!result.is_load && result.ok > 0) parts_.loader->Kick();
    ppc_result out{};
    out.kind = result.is_load ? PPC_LOADED : PPC_EVICTED;
    out.group = result.group;
    out.file = result.file;
    out.offset = result.offset;
    out.size = result.size;
    out.cookie = result.cookie;
    out.ok = result.ok;
    out.resident = result.resident;
    out.failed = result.failed;
    out.mapped = result.mapped;
    out.interrupted = result.interrupted ? 1 : 0;
    out.error = -result.error;
    parts_.host->Done(out);
  }
  if (!results_.empty()) ++plan_epoch_;
  return !results_.empty();
}

bool Executor::HandleBackground() {
  if (parts_.background->RunDone() == 0) return false;
  ++plan_epoch_;
  return true;
}

// ------------------------------------------------------------------------ time

void Executor::TickIfDue() {
  const uint64_t now = parts_.backend->NowNs();
  if (now < next_tick_ns_) return;
  // Nobody waits for ticks: wake up less.
  const bool is_awaited = parts_.host->Has(Hook::kTick) || parts_.host->Has(Hook::kEvict);
  next_tick_ns_ = now + options_.tick_ns * (is_awaited ? 1 : kTicksPerCheck);
  ++stats_.ticks;
  ++plan_epoch_;
  if (parts_.host->Has(Hook::kEvict) &&
      (evict_every_tick_ || (parts_.services->IsAnyAbove() && look_.IsKnown()))) {
    SubmitEvicts(parts_.host->Evict(nullptr));
  }
  parts_.host->Tick(now);
  if (PolicyServices* const traced = parts_.policy_services; traced->HasTrace())
    (void)parts_.background->Submit([traced] { traced->FlushTrace(); }, nullptr);
  if (stats_.ticks % kTicksPerCheck == 0) look_.RefreshIfBound();
}

// Deep enough that threads never wait for the policy, shallow enough that it decides late.
uint64_t Executor::PlanDepth() const {
  const uint64_t threads = static_cast<uint64_t>(parts_.loader->Threads());
  return std::max(kMinPlanBytes, threads * 2 * options_.chunk_bytes);
}

void Executor::AskForEvictions() {
  if (parts_.host->Has(Hook::kEvict)) SubmitEvicts(parts_.host->Evict(nullptr));
}

// A loader without room loads nothing, so use never rises above the threshold and nothing would
// be evicted either: ask as soon as not even a chunk fits.
void Executor::EvictForRoom() {
  constexpr uint64_t kRoomNs = 10 * 1000 * 1000;
  const uint64_t now = parts_.backend->NowNs();
  if (now < next_room_ns_ || !parts_.host->Has(Hook::kEvict)) return;
  if (!parts_.host->Has(Hook::kPlan) && parts_.loader->Queued() == 0) return;
  next_room_ns_ = now + kRoomNs;
  for (Service* service : parts_.services->Active()) {
    if (service->payer->budget->Read(false).room >= options_.chunk_bytes) continue;
    if (!look_.IsKnown()) return;
    AskForEvictions();
    ++plan_epoch_;
    return;
  }
}

// A read limit makes the device slow for who is limited.
DeviceSpeed Executor::DeviceFor(ReadRate* rate) const {
  DeviceSpeed device = parts_.loader->Device();
  const uint64_t limit = rate != nullptr ? rate->Limit() : 0;
  if (limit != 0) device.bytes_per_s = std::min(device.bytes_per_s, limit);
  return device;
}

void Executor::AskForPlan() {
  EvictForRoom();
  if (!parts_.host->Has(Hook::kPlan)) return;
  size_t planning = 0;
  for (const Service* service : parts_.services->Active())
    planning += service->empty_epoch != plan_epoch_ ? 1 : 0;
  if (planning == 0) return;
  const uint64_t depth = std::max(PlanDepth() / planning, 2 * options_.chunk_bytes);
  for (Service* service : parts_.services->Active()) {
    if (service->empty_epoch != plan_epoch_) AskForPlanOf(service, depth);
  }
}

void Executor::AskForPlanOf(Service* service, uint64_t depth) {
  constexpr int kRounds = 4;
  for (int round = 0; round < kRounds; ++round) {
    const uint64_t queued = parts_.loader->QueuedOf(service->number);
    if (queued >= depth / 2) return;
    ppc_memory memory;
    parts_.policy_services->FillMemory(service, false, &memory);
    const uint64_t room = memory.room > queued ? memory.room - queued : 0;
    if (room == 0) return;
    const DeviceSpeed device = DeviceFor(service->payer->rate.get());
    const ppc_plan_request request{.max_bytes = std::min(depth - queued, room),
                                   .memory = &memory,
                                   .device_rate = device.bytes_per_s,
                                   .device_step_ns = device.step_ns,
                                   .service = service->number};
    const RawList list = parts_.host->Plan(request);
    if (list.ios.empty()) {
      service->empty_epoch = plan_epoch_;
      return;
    }
    SubmitLoads(list);
  }
}

}  // namespace ppc
