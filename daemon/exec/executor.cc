// SPDX-License-Identifier: Apache-2.0
#include "daemon/exec/executor.h"

#include <sys/eventfd.h>

#include <algorithm>
#include <cerrno>
#include <memory>
#include <utility>

namespace ppc {

Executor::Executor(Parts parts, Options options)
    : parts_(parts),
      options_(options),
      stop_fd_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)),
      residency_scan_({parts.backend, parts.evictor, parts.files, parts.services, parts.own_cache},
                      options.chunk_bytes),
      lists_({parts.backend, parts.loader, parts.evictor, parts.host, parts.files, parts.services,
              parts.topology, parts.guard, parts.completions}),
      intake_({parts.backend, parts.loader, parts.host, &lists_, &residency_scan_, parts.files,
               parts.services, parts.demand, parts.own_cache, parts.autos, parts.control,
               parts.lookups, parts.recorder, parts.guard},
              {options.window_bytes, options.manual}) {
  AddSource(parts_.completions->fd(), [](short) {});
  AddSource(stop_fd_.Get(), [](short) {});
  AddSource(parts_.background->fd(), [this](short) { parts_.background->ClearWake(); });
  AddSource(parts_.remote->fd(), [this](short) { parts_.remote->ClearWake(); });
  AddSource(parts_.control->fd(), [this](short) { parts_.control->ClearWake(); });
  AddSource(parts_.lookups->fd(), [this](short) { parts_.lookups->ClearWake(); });
  parts_.services->Use(Helper(parts_.control), Helper(parts_.lookups),
                       [this] { intake_.NoteAnswer(); });
  if (options_.manual) return;
  parts_.files->UseRenewal([this](uint64_t file) {
    return parts_.control->Submit([this, file] { parts_.files->Renew(file); }, nullptr).ok();
  });
}

Offload Executor::Helper(JobQueue* queue) const {
  if (options_.manual) return nullptr;
  return [queue](std::function<void()> work, std::function<void()> done) {
    return queue->Submit(std::move(work), std::move(done)).ok();
  };
}

void Executor::AddSource(int fd, std::function<void(short)> ready) {
  sources_.push_back(Source{fd, std::move(ready)});
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
  const size_t drained = intake_.DrainBatch();
  HandleExecs();
  HandleCompletions();
  TickIfDue();
  HandleHelpers();
  AskForPlan(/*is_quiet=*/drained == 0);
  if (parts_.host->IsDropped()) return End::kDropped;
  return WaitForWork(drained);
}

bool Executor::Pump() {
  const size_t drained = intake_.DrainBatch();
  HandleExecs();
  const bool has_results = HandleCompletions();
  return HandleHelpers() || has_results || drained > 0;
}

// Sleeps after events: a reader that missed once misses again soon, and being woken for each would
// cost the application more than the event itself.  After a full batch, when there may be more,
// only a look at the other descriptors: events without end must not keep control waiting.
Executor::End Executor::WaitForWork(size_t drained) {
  const bool nap = drained > 0;
  const bool is_full = drained == EventIntake::kBatch;
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
  for (size_t i = 0; i < pollfds_.size(); ++i) {
    if (pollfds_[i].revents != 0) sources_[i].ready(pollfds_[i].revents);
  }
  return End::kRunning;
}

// A lease that ran out while we were stopped may have left nothing to poll for.
Executor::End Executor::CheckAlive() {
  const Result<BackendCounters> counters = parts_.backend->Counters();
  if (!counters) return End::kGone;
  return counters->attached ? End::kRunning : End::kExpired;
}

void Executor::NoteWork(const IoResult& result, Service* service) {
  constexpr uint64_t kFoundWorth = 16;
  service->empty_epoch = 0;
  if (!result.is_load) return;
  service->found_bytes += result.resident;
  service->found_bytes -= std::min(service->found_bytes, kFoundWorth * result.ok);
}

// No more than its memory can be there: a policy that finds twice as much, and loads next to
// nothing, asks for the same again and again, and its looks take the CPUs from the readers.
bool Executor::RepeatsItself(const ppc_memory& memory, Service* service) const {
  if (memory.limit == 0 || service->found_bytes / 2 <= memory.limit) return false;
  return std::exchange(service->found_tick, stats_.ticks) == stats_.ticks;
}

bool Executor::HandleCompletions() {
  results_.clear();
  parts_.completions->Take(&results_);
  bool is_news = false;  // what was refused is no reason to plan anew
  bool has_dropped = false;
  for (const IoResult& result : results_) {
    is_news |= !result.is_refused;
    has_dropped |= !result.is_refused && !result.is_load;
    Service* const payer = parts_.services->PaidBy(result.service, result.payer);
    if (payer != nullptr && !result.is_refused) {
      NoteWork(result, payer);
      if (parts_.guard != nullptr) TellGuard(result, *payer);
    }
    if (!result.is_load && result.ok > 0) parts_.loader->WakeThreads();
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
  if (has_dropped) ++plan_epoch_;  // others may need it, or its room
  // A neighbour that drops the cache may take what is loaded until the next tick.
  if (is_news && parts_.guard != nullptr && parts_.backend->NowNs() >= sampled_ns_ + kSampleNs)
    SampleCache();
  return !results_.empty();
}

void Executor::HandleExecs() {
  execs_.clear();
  parts_.backend->TakeExecs(&execs_);
  for (const Exec& exec : execs_) {
    if (parts_.autos != nullptr) parts_.autos->Guess(exec);
  }
}

void Executor::TellGuard(const IoResult& result, const Service& payer) {
  const Guard::Slot slot = GuardSlot(payer);
  const bool has_failed = result.failed > 0 || (result.error != 0 && result.error != ESTALE);
  const Guard::RangeResult done{.file = result.file,
                                .offset = result.offset,
                                .size = result.size,
                                .bytes = result.ok,
                                .unmap = result.unmap,
                                .failed = has_failed && !result.interrupted,
                                .error = result.error};
  if (!result.is_load) return parts_.guard->NoteDropped(slot, done, parts_.backend->NowNs());
  parts_.guard->NoteLoaded(slot, done, parts_.backend->NowNs());
  AskForHits();
}

// What the kernel alone could cache: the limit, less what is no page cache.  Samples of what was
// loaded are looked at where waiting does no harm.
void Executor::TickGuard(uint64_t now) {
  for (Service* service : parts_.services->Active()) {
    const MemoryReading& memory =
        parts_.services->Memory(service, options_.tick_ns, /*with_cache=*/true).memory;
    if (memory.limit == 0) continue;
    // Where nothing is said of the page cache it may be all.
    const uint64_t cache = memory.cache != 0 ? memory.cache : memory.used;
    const uint64_t held = memory.used - std::min(cache, memory.used);
    // Room is withheld while tasks wait for memory, which is no reason to drop more.
    const uint64_t usable = memory.threshold + memory.withheld;
    parts_.guard->SetRoom(GuardSlot(*service), memory.limit - std::min(held, memory.limit),
                          usable - std::min(held, usable));
  }
  parts_.guard->Tick(now);
  WithdrawLoads();
  AskForHits();
  SampleCache();
}

void Executor::AskForHits() {
  const bool wants = parts_.guard->WantsHits();
  if (std::exchange(has_asked_for_hits_, wants) != wants && parts_.on_wish) parts_.on_wish();
}

void Executor::SampleCache() {
  if (is_sampling_) return;
  sampled_ns_ = parts_.backend->NowNs();
  parts_.guard->TakeSamples(&samples_);
  if (samples_.empty()) return;
  const auto resident = std::make_shared<std::vector<uint64_t>>(samples_.size(), UINT64_MAX);
  const auto look = [this, resident, samples = samples_] {
    for (size_t i = 0; i < samples.size(); ++i) {
      const Guard::Sample& sample = samples[i];
      const Result<uint64_t> found = parts_.backend->SampleCache(sample.file, sample.offset,
                                                                 sample.length, sample.has_service);
      if (found) (*resident)[i] = *found;
    }
  };
  const auto note = [this, resident] {
    is_sampling_ = false;
    const uint64_t noted = parts_.backend->NowNs();
    for (size_t i = 0; i < resident->size(); ++i)
      parts_.guard->NoteSample(samples_[i], (*resident)[i], noted);
    if (!parts_.guard->HasVanished()) return;
    WithdrawLoads();
    SampleCache();
  };
  is_sampling_ = parts_.control->Submit(look, note).ok();
}

// The loader still has ranges that were queued before a window shrank.
void Executor::WithdrawLoads() {
  for (const Service* service : parts_.services->Active()) {
    const uint64_t queued = parts_.loader->QueuedOf(service->number);
    if (queued > parts_.guard->WindowLeft(GuardSlot(*service), 0))
      parts_.loader->Withdraw(service->number);
  }
}

void Executor::WatchLoads(uint64_t now) {
  const LoaderStats loads = parts_.loader->Stats();
  const bool has_any = loads.queued + loads.inflight > 0;
  const uint64_t done = loads.loaded + loads.resident + loads.failed;
  const bool goes_on = std::exchange(seen_done_, done) != done;
  const bool has_missed =
      std::exchange(seen_misses_, intake_.Stats().misses) != intake_.Stats().misses;
  if (goes_on || !has_any) {
    stuck_ns_ = 0;
  } else if (has_missed && stuck_ns_ == 0) {
    stuck_ns_ = now;
  }
  const bool are_stuck = stuck_ns_ != 0 && now >= stuck_ns_ + kStuckNs;
  if (std::exchange(are_stuck_, are_stuck) != are_stuck && parts_.on_wish) parts_.on_wish();
}

bool Executor::HandleHelpers() {
  const size_t known = parts_.control->RunDone() + parts_.lookups->RunDone();
  const size_t done = parts_.background->RunDone() + parts_.remote->RunDone();
  if (done > 0) ++plan_epoch_;
  intake_.ReleaseAnswered();
  if (parts_.autos != nullptr) parts_.autos->Decide();
  return known + done > 0;
}

// ------------------------------------------------------------------------ time

void Executor::TickIfDue() {
  const uint64_t now = parts_.backend->NowNs();
  if (now < next_tick_ns_) return;
  // The policy waits for no ticks: wake up less.
  const bool is_awaited = parts_.host->Has(Hook::kTick) || parts_.host->Has(Hook::kEvict);
  next_tick_ns_ = now + options_.tick_ns * (is_awaited ? 1 : kTicksPerCheck);
  ++stats_.ticks;
  ++plan_epoch_;
  intake_.ReleaseHeld();  // what could not be asked for when it came
  intake_.ExpirePendingMessages(now);
  if (parts_.host->Has(Hook::kEvict) &&
      (evict_every_tick_ || (parts_.services->IsAnyAbove() && residency_scan_.IsKnown()))) {
    lists_.AskForEvictions();
  }
  if (parts_.guard != nullptr) TickGuard(now);
  WatchLoads(now);
  parts_.host->Tick(now);
  if (PolicyServices* const traced = parts_.policy_services; traced->HasTrace())
    (void)parts_.control->Submit([traced] { traced->FlushTrace(); }, nullptr);
  if (stats_.ticks % kTicksPerCheck == 0 && parts_.autos != nullptr) parts_.autos->EndGone();
  if (stats_.ticks % kTicksPerCheck == 0) residency_scan_.RefreshIfBound();
}

// Deep enough that threads never wait for the policy, shallow enough that it decides late.
uint64_t Executor::PlanDepth() const {
  const uint64_t threads = static_cast<uint64_t>(parts_.loader->Threads());
  return std::max(kMinPlanBytes, threads * 2 * options_.chunk_bytes);
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
    // One that has nothing to load needs none.
    const bool may_load = !parts_.host->Has(Hook::kPlan) || !IsIdle(*service) ||
                          parts_.loader->QueuedOf(service->number) != 0;
    if (!may_load) continue;
    if (parts_.services->Memory(service, kRoomNs).room >= options_.chunk_bytes) continue;
    if (!residency_scan_.IsKnown()) return;
    lists_.AskForEvictions();
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

// If the last plan was empty, a reader that only hits resident pages may still reach something
// worth loading.  That is not urgent: the policy is asked every 20 ms, or when the batch is empty.
bool Executor::IsPlanDue(const Service& service, bool is_quiet) const {
  constexpr uint64_t kMovedNs = 20 * 1000 * 1000;
  if (service.empty_epoch != plan_epoch_) return true;
  return service.has_moved && (is_quiet || intake_.BatchNs() >= service.empty_ns + kMovedNs);
}

void Executor::AskForPlan(bool is_quiet) {
  EvictForRoom();
  if (!parts_.host->Has(Hook::kPlan)) return;
  size_t planning = 0;
  for (const Service* service : parts_.services->Active())
    planning += IsPlanDue(*service, is_quiet) ? 1 : 0;
  if (planning == 0) return;
  const uint64_t depth = std::max(PlanDepth() / planning, 2 * options_.chunk_bytes);
  for (Service* service : parts_.services->Active()) {
    if (IsPlanDue(*service, is_quiet)) AskForPlanOf(service, depth);
  }
}

void Executor::AskForPlanOf(Service* service, uint64_t depth) {
  constexpr int kRounds = 4;
  // The policy plans for all services when something happens to one: for idle ones it sees older
  // memory.
  constexpr uint64_t kIdleAgeNs = 1'000'000'000;
  uint64_t age_ns = IsIdle(*service) ? kIdleAgeNs : 0;
  for (int round = 0; round < kRounds; ++round) {
    const uint64_t queued = parts_.loader->QueuedOf(service->number);
    if (queued >= depth / 2) return;
    ppc_memory memory;
    parts_.policy_services->FillMemory(service, std::exchange(age_ns, 0), false, &memory);
    if (RepeatsItself(memory, service)) return;
    uint64_t room = memory.room > queued ? memory.room - queued : 0;
    if (parts_.guard != nullptr) {
      const uint64_t allowed = parts_.guard->PlanBytes(GuardSlot(*service), queued);
      room = allowed < kStepBytes ? 0 : std::min(room, allowed);
    }
    if (room == 0) {
      service->empty_epoch = 0;  // it may have something to load: from now on memory is read
      return;
    }
    const DeviceSpeed device = DeviceFor(service->payer->rate.get());
    const ppc_plan_request request{.max_bytes = std::min(depth - queued, room),
                                   .memory = &memory,
                                   .device_rate = device.bytes_per_s,
                                   .device_step_ns = device.step_ns,
                                   .service = service->number};
    const RawList list = parts_.host->Plan(request);
    if (list.ios.empty() || !lists_.SubmitLoads(list)) {
      service->empty_epoch = plan_epoch_;
      service->empty_ns = intake_.BatchNs();
      service->has_moved = false;
      return;
    }
  }
}

}  // namespace ppc
