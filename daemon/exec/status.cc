// SPDX-License-Identifier: Apache-2.0
// Owns what the runtime tells about itself: Runtime::StatusJson.
#include <algorithm>
#include <chrono>
#include <cstring>
#include <optional>
#include <string>
#include <utility>

#include "daemon/base/clock.h"
#include "daemon/exec/runtime.h"

namespace ppc {
namespace {

Json LoaderJson(const LoaderStats& stats, const DeviceSpeed& device) {
  Json interrupted = Json::object();
  for (size_t i = 1; i < kInterruptions; ++i) {
    interrupted[InterruptionName(static_cast<Interruption>(i))] = stats.interrupted[i];
  }
  Json nodes = Json::object();
  for (size_t node = 0; node < stats.node_loaded.size(); ++node) {
    if (stats.node_loaded[node] > 0) nodes[std::to_string(node)] = stats.node_loaded[node];
  }
  return Json{{"asked", stats.asked},
              {"loaded", stats.loaded},
              {"resident", stats.resident},
              {"failed", stats.failed},
              {"refused", stats.refused},
              {"replaced", stats.replaced},
              {"queued", stats.queued},
              {"inflight", stats.inflight},
              {"chunks", stats.chunks},
              {"device_mbps", device.bytes_per_s / 1000000},
              {"latency_us", device.step_ns / 1000},
              {"threads", stats.threads},
              {"threads_allowed", stats.threads_allowed},
              {"neighbours_wait", stats.neighbours_wait},
              {"interrupted", interrupted},
              {"node_loaded", nodes},
              {"node_any_loaded", stats.node_unknown}};
}

Json EvictorJson(const EvictorStats& stats) {
  return Json{{"asked", stats.asked},   {"dropped", stats.dropped}, {"mapped", stats.mapped},
              {"dirty", stats.dirty},   {"locked", stats.locked},   {"busy", stats.busy},
              {"ranges", stats.ranges}, {"refused", stats.refused}, {"errors", stats.errors},
              {"queued", stats.queued}};
}

Json GuardJson(const GuardView& guard) {
  return Json{{"state", guard.state},
              {"reason", guard.reason},
              {"regret_bytes", guard.regret},
              {"churn_bytes", guard.churn},
              {"waste_bytes", guard.waste},
              {"vanished_bytes", guard.vanished},
              {"displaced_bytes", guard.displaced},
              {"credit", guard.credit},
              {"load_window", guard.window},
              {"refused_load_bytes", guard.refused_loads},
              {"refused_drop_bytes", guard.refused_drops},
              {"failing_bytes", guard.failing}};
}

// The guard knows files by their numbers alone.
void NameFailedFile(FileTable* files, uint64_t now_ns, GuardView* guard) {
  FileCopy file;
  if (guard->failed_file == 0 || !files->Peek(guard->failed_file, now_ns, &file)) return;
  const std::string why = guard->failed_error == 0 ? "" : std::strerror(guard->failed_error);
  guard->reason += (guard->reason.empty() ? "" : "; ") + ("reads of " + file.path + " failed") +
                   (why.empty() ? "" : " (" + why + ")");
}

Json LearntJson(const LearntPrograms::Stats& stats) {
  return Json{{"programs", stats.programs},
              {"guesses", stats.guesses},
              {"right", stats.right},
              {"wrong", stats.wrong},
              {"wrong_bytes", stats.wrong_bytes}};
}

Json HooksJson(const std::vector<StatusParts::OneHook>& all) {
  Json hooks = Json::object();
  for (const auto& [hook, stats] : all) {
    hooks[HookName(hook)] = Json{{"calls", stats.calls},
                                 {"total_us", stats.total_ns / 1000},
                                 {"max_us", stats.max_ns / 1000},
                                 {"faults", stats.faults}};
  }
  return hooks;
}

Json ExecutorJson(const ExecutorStats& stats, uint64_t merged) {
  Json refused = Json{{"surplus", stats.refused_surplus}};
  for (size_t i = 1; i < std::size(stats.refused); ++i) {
    refused[IoRefusalName(static_cast<IoRefusal>(i))] = stats.refused[i];
  }
  return Json{{"events", stats.events},
              {"own_events", stats.own_events},
              {"lost_marks", stats.lost_marks},
              {"unresolved", stats.unresolved},
              {"strangers", stats.strangers},
              {"held", stats.held},
              {"held_lost", stats.held_lost},
              {"merged", merged},
              {"misses", stats.misses},
              {"miss_bytes", stats.miss_bytes},
              {"progress", stats.progress},
              {"accesses", stats.accesses},
              {"prefetch_ranges", stats.prefetch_ranges},
              {"evict_ranges", stats.evict_ranges},
              {"refused", refused},
              {"wakeups", stats.wakeups},
              {"naps", stats.naps},
              {"ticks", stats.ticks}};
}

Json DeviceJson(const Result<BackendCounters>& counters) {
  if (!counters) return Json{{"error", counters.error().message}};
  return Json{{"events_queued", counters->events_queued},
              {"events_lost", counters->events_lost},
              {"events_skipped", counters->events_skipped},
              {"events_coalesced", counters->events_coalesced},
              {"bypassed_bytes", counters->bypassed_bytes},
              {"wakeups", counters->wakeups},
              {"lease_expiries", counters->lease_expiries},
              {"attached", counters->attached},
              {"window", counters->window_bytes},
              {"beacon", counters->beacon_bytes}};
}

// What may always be added, so that a policy that begins is asked for its plan.
constexpr uint64_t kLeastGrowth = 256 << 20;
constexpr uint64_t kRestNs = 2 * kNsPerSec;  // without anything new nothing more is wanted

}  // namespace

std::vector<std::shared_ptr<const Cgroup>> Runtime::ServiceCgroups() const {
  std::vector<std::shared_ptr<const Cgroup>> groups;
  for (const Service* service : services_->Active()) groups.push_back(service->cgroup);
  return groups;
}

// All files that were seen, but no more than the services may have by their cgroups' limits.
uint64_t Runtime::UsefulBytes(const std::vector<std::shared_ptr<const Cgroup>>& groups) const {
  uint64_t limits = 0;
  for (const std::shared_ptr<const Cgroup>& group : groups) {
    const std::optional<MemoryReading> found =
        group != nullptr ? group->Read(1, false) : std::nullopt;
    if (!found) return files_->Bytes();
    limits += found->limit;
  }
  return std::min(files_->Bytes(), limits);
}

Json Runtime::MemoryJson(const std::vector<std::shared_ptr<const Cgroup>>& groups) {
  const uint64_t now = backend_->NowNs();
  const uint64_t keeps = own_cache_.load(std::memory_order_relaxed);
  const LoaderStats loads = loader_->Stats();
  if (keeps > seen_cache_ || loads.asked > seen_asked_ || loads.queued + loads.inflight > 0)
    grew_ns_ = now;
  seen_cache_ = keeps;
  seen_asked_ = loads.asked;
  const bool grows = grew_ns_ != 0 && now < grew_ns_ + kRestNs;
  const uint64_t wants = std::max(keeps + kLeastGrowth, grows ? UsefulBytes(groups) : 0);
  const RuntimeOptions& options = config_.options;
  const uint64_t budget = ServiceMemory::MachineBudget({.roots = config_.roots,
                                                        .share = options.threshold,
                                                        .reserve_bytes = options.reserve_bytes,
                                                        .reserve_share = options.reserve_share});
  Json reads = Json::array();
  for (const RateUse& use : services_->read_limits().TakeUses(now)) {
    reads.push_back({{"cgroup", use.cgroup},
                     {"major", use.device.major},
                     {"minor", use.device.minor},
                     {"limit", use.limit},
                     {"used", use.used},
                     {"short", use.is_short}});
  }
  return Json{{"budget", budget}, {"keeps", keeps}, {"wants", wants}, {"reads", std::move(reads)}};
}

// What is not as it should be is taken for nothing: then all of a limit is ours.
void Runtime::SetReadShares(const Json& reads) {
  RateShares shares;
  shares.runners = std::max<uint64_t>(JsonCount(reads, "runners"), 1);
  for (const Json& one : JsonMember(reads, "limits")) {
    const BlockDevice device{static_cast<uint32_t>(JsonCount(one, "major")),
                             static_cast<uint32_t>(JsonCount(one, "minor"))};
    shares.rates[{JsonCount(one, "cgroup"), device}] = JsonCount(one, "rate");
  }
  services_->read_limits().SetShares(std::move(shares));
}

StatusParts Runtime::GatherStatus() {
  StatusParts parts;
  parts.gathered_ns = MonotonicNs();
  // Not where the hook hangs: the module takes the question for a sign that events are consumed.
  parts.device = backend_->Counters();
  parts.events = executor_->Stats();
  parts.merged = executor_->Merged();
  for (size_t i = 0; i < kHookCount; ++i) {
    const auto hook = static_cast<Hook>(i);
    if (host_->Has(hook)) parts.hooks.push_back({hook, host_->Stats(hook)});
  }
  parts.faults = host_->Faults();
  parts.last_fault = host_->LastFault();
  parts.demand = demand_.Bytes(backend_->NowNs());
  if (learnt_ != nullptr) parts.learnt = learnt_->View();
  for (const Service* service : services_->Active()) {
    const std::shared_ptr<Payer>& payer = service->payer;
    parts.services.push_back(
        {service->id, service->number, service->xpus,
         service->cgroup ? service->cgroup->path() : "", service->note, payer,
         payer->charge != nullptr, payer->rate ? payer->rate->Limit() : 0,
         payer->budget->Now(service->memory), service->looked_ns, service->is_auto,
         guard_ != nullptr ? std::optional(guard_->View(GuardSlot(*service))) : std::nullopt});
    std::optional<GuardView>& guard = parts.services.back().guard;
    if (guard) NameFailedFile(files_.get(), backend_->NowNs(), &*guard);
  }
  return parts;
}

void Runtime::NoteStatus() {
  auto parts = std::make_shared<const StatusParts>(GatherStatus());
  {
    const std::lock_guard lock(noted_.mutex);
    noted_.parts = std::move(parts);
    noted_.is_due = false;
  }
  noted_.changed.notify_all();
}

// A thread that is in no hook waits for a CPU, seldom for storage: it is given more time.
Json Runtime::StatusNow() {
  constexpr std::chrono::milliseconds kLook{5};
  constexpr int kMostLooks = 100;
  constexpr uint64_t kHookNs = 20 * kNsPerMs;
  std::unique_lock lock(noted_.mutex);
  if (!std::exchange(noted_.is_due, true)) Tell([this] { NoteStatus(); });
  for (int i = 0; noted_.is_due && i < kMostLooks && watchdog_->InFlight().ns < kHookNs; ++i)
    noted_.changed.wait_for(lock, kLook);
  const std::shared_ptr<const StatusParts> parts = noted_.parts;
  const bool is_old = noted_.is_due;
  lock.unlock();
  Json json = StatusJson(*parts);
  if (!is_old) return json;
  json["age_ms"] = (MonotonicNs() - parts->gathered_ns) / kNsPerMs;
  const Watchdog::Call call = watchdog_->InFlight();
  if (call.ns > 0) json["waits_for"] = {{"hook", call.hook}, {"ms", call.ns / kNsPerMs}};
  return json;
}

// Reading the memory of many services may take the kernel long: the last look serves for the later
// ones.
Json Runtime::StatusJson(const StatusParts& parts) {
  constexpr uint64_t kReadNs = 20 * kNsPerMs;
  const uint64_t read_until_ns = config_.manual ? UINT64_MAX : MonotonicNs() + kReadNs;
  Json services = Json::array();
  for (const StatusParts::OneService& service : parts.services) {
    const std::shared_ptr<Payer> payer = service.payer.lock();
    const bool is_read =
        payer != nullptr && (service.looked_ns == 0 || MonotonicNs() < read_until_ns);
    const Budget::State state = is_read ? payer->budget->Read(/*with_cache=*/true) : service.memory;
    const MemoryReading& memory = state.memory;
    Json one = {{"service_id", service.id},
                {"service", service.number},
                {"xpus", service.xpus},
                {"cgroup", service.cgroup},
                {"charged", service.is_charged},
                {"read_limit", service.read_limit},
                {"memory",
                 {{"limit", memory.limit},
                  {"used", memory.used},
                  {"cache", memory.cache},
                  {"threshold", memory.threshold},
                  {"withheld", memory.withheld},
                  {"room", state.room},
                  {"inflight", state.inflight},
                  {"demand", parts.demand},
                  {"is_cgroup", memory.is_cgroup}}}};
    if (!is_read) one["memory"]["age_ms"] = (backend_->NowNs() - service.looked_ns) / kNsPerMs;
    if (service.guard) one["guard"] = GuardJson(*service.guard);
    if (service.is_auto) one["auto"] = true;
    if (!service.note.empty()) one["note"] = service.note;
    services.push_back(std::move(one));
  }
  Json xpus = Json::array();
  for (const Xpu& xpu : config_.topology.xpus) {
    xpus.push_back(Json{{"bdf", xpu.bdf}, {"node", xpu.node}});
  }
  const Capabilities caps = backend_->Caps();
  const uint64_t share = memory_share_.load(std::memory_order_relaxed);
  Json json{{"mount", config_.mount},
            {"backend", caps.backend},
            {"limits", caps.limits},
            {"policy", config_.policy_name},
            {"up_ms", (backend_->NowNs() - started_ns_) / kNsPerMs},
            {"device", DeviceJson(parts.device)},
            {"events", ExecutorJson(parts.events, parts.merged)},
            {"hooks", HooksJson(parts.hooks)},
            {"faults", parts.faults},
            {"last_fault", parts.last_fault},
            {"loader", LoaderJson(loader_->Stats(), loader_->Device())},
            {"evictor", EvictorJson(evictor_->Stats())},
            {"own_cache", own_cache_.load()},
            {"memory_share", share == kNoMemoryShare ? Json() : Json(share)},
            {"files", files_->Size()},
            {"services", services},
            {"nodes", config_.topology.nodes.size()},
            {"xpus", xpus},
            {"stats", policy_services_->Stats()}};
  if (parts.learnt) json["learnt_starts"] = LearntJson(*parts.learnt);
  return json;
}

}  // namespace ppc
