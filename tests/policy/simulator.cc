// SPDX-License-Identifier: Apache-2.0
// See simulator.h.  The kernel's read-ahead is off while a policy is attached: with it these slow
// readers miss next to nothing that a policy could see.
#include "tests/policy/simulator.h"

#include <algorithm>
#include <utility>

namespace ppc::test {
namespace {

constexpr uint32_t kLoaders = 4;
constexpr uint32_t kSmallLoaders = 32;  // of PPC_IO_MANY

ppc_result ResultOf(uint32_t kind, const ppc_io& io) {
  ppc_result r = {};
  r.kind = kind;
  r.group = io.group;
  r.file = io.file;
  r.offset = io.offset;
  r.size = io.size;
  r.cookie = io.cookie;
  return r;
}

}  // namespace

Simulator::Simulator(const std::string& policy_path, const Options& options)
    : HostedPolicy(policy_path), options_(options) {
  if (options_.limit == 0) options_.limit = 64ull << 30;
  machine_ = std::make_shared<Machine>(options_);
}

Simulator::~Simulator() {
  Exit();
  machine_.reset();  // readers see it gone
}

void Simulator::AddFiles() {
  for (const auto& [number, file] : files) {
    if (cached_.contains(number)) continue;
    cached_[number] = machine_->cache.AddFile(file.path, file.size, "");
    numbers_.push_back(number);
  }
}

int Simulator::Init() {
  AddFiles();
  UpdateMemory();
  return HostedPolicy::Init();
}

void Simulator::Crash() {
  Exit();
  is_down_ = true;
  for (const auto& load : loads_) load->is_interrupted = true;
  loads_.clear();
  results_.clear();
  want = ~0u;
  machine_->kernel.Detach(0);
}

int Simulator::Recover() {
  is_down_ = false;
  return Init();
}

nlohmann::json Simulator::Control(const nlohmann::json& message) {
  UpdateMemory();
  return HostedPolicy::Control(message);
}

// ---------------------------------------------------------------------- machine

uint64_t Simulator::resident() const { return machine_->cache.resident_bytes(); }

bool Simulator::IsResident(uint64_t file, uint64_t offset) const {
  const uint32_t page = cached_.at(file)->first + sim::PageOfOffset(offset);
  return machine_->cache.page(page).state == sim::PageState::kUptodate;
}

void Simulator::DropAll() { machine_->cache.DropEverything(); }

void Simulator::set_other(uint64_t bytes) {
  machine_->cache.SetOther(bytes);
  UpdateMemory();
}

void Simulator::set_disk(uint64_t bytes_per_ms) {
  machine_->disk.Slow(static_cast<double>(bytes_per_ms) * 1e3, options_.demand_latency_ms * kMsNs);
}

void Simulator::UpdateMemory() {
  const sim::CacheStats& counts = machine_->cache.stats();
  disk_bytes = counts.read;
  demand_bytes = counts.charged[sim::kServicePays];
  reread_bytes = counts.reread;
  refault_bytes = counts.refaulted;
  reclaimed_bytes = counts.reclaimed;
  evicted_bytes = counts.evicted;
  memory.limit = options_.limit;
  memory.threshold = uses_limit ? options_.limit - options_.limit / 64 : options_.limit / 5 * 4;
  memory.cache = resident();
  memory.used = machine_->cache.used_bytes();
  memory.inflight = 0;
  for (const auto& load : loads_) memory.inflight += load->end - std::min(load->at, load->end);
  const uint64_t taken = memory.used + memory.inflight;
  memory.room = memory.threshold > taken ? memory.threshold - taken : 0;
  memory.is_cgroup = options_.is_cgroup ? 1 : 0;
  peak = std::max(peak, memory.used);
}

void Simulator::FindResident(uint64_t file, uint64_t offset, uint64_t size, uint8_t* bitmap,
                             size_t bytes, ppc_residency* out) {
  FakeHost::FindResident(file, offset, size, bitmap, bytes, out);
  const uint64_t end = cached_.contains(file) ? files[file].size : 0;
  for (uint64_t at = offset, bit = 0; at < end && bit * kPage < size; at += kPage, bit++) {
    if (!IsResident(file, at)) continue;
    if (bit / 8 < bytes) bitmap[bit / 8] |= static_cast<uint8_t>(1u << bit % 8);
    out->resident += kPage;
  }
}

// A miss loads its window whether the policy reads ahead or not: natively read-ahead would hide
// most misses of these slow readers.
void Simulator::Attach() {
  const uint32_t wanted = want != ~0u ? want : 0;
  machine_->kernel.Attach(0, {.managed_readahead = true,
                              .progress = (wanted & PPC_WANT_PROGRESS) != 0,
                              .trace = (wanted & PPC_WANT_TRACE) != 0,
                              .open_close = (wanted & PPC_WANT_OPENCLOSE) != 0,
                              .window_bytes = window_bytes,
                              .beacon_bytes = beacon_bytes});
}

// ------------------------------------------------------------------------ loads

// In a fiber.
void Simulator::RunLoad(Load* load) {
  const int node = load->io.xpu < 0 ? -1 : xpu_nodes[load->io.xpu];
  const LoadRequest request = {.file = cached_[load->io.file]->number,
                               .offset = load->at,
                               .length = load->end - load->at,
                               .node = node};
  const bool is_waited = (load->io.flags & PPC_IO_WAITED) != 0;
  load->result = machine_->kernel.Load(request, [&] {
    if (!is_waited && machine_->cache.used_bytes() >= memory.threshold) load->is_interrupted = true;
    load->at = std::min(load->end, (load->at / kStepBytes + 1) * kStepBytes);
    return load->is_interrupted;
  });
  node_bytes[node] += load->result.loaded;
  load->has_ended = true;
}

void Simulator::StepLoads() {
  uint32_t active = 0, small = 0;
  for (auto it = loads_.begin(); it != loads_.end();) {
    if ((*it)->has_ended) {
      ppc_result r = ResultOf(PPC_LOADED, (*it)->io);
      r.ok = (*it)->result.loaded;
      r.resident = (*it)->result.resident;
      r.interrupted = (*it)->is_interrupted;
      results_.push_back(r);
      it = loads_.erase(it);
      continue;
    }
    const bool is_small = ((*it)->io.flags & PPC_IO_MANY) != 0;
    const bool may_begin = is_small ? small++ < kSmallLoaders : active++ < kLoaders;
    if (may_begin && !std::exchange((*it)->is_begun, true)) {
      machine_->scheduler->Spawn([this, load = *it] { RunLoad(load.get()); });
    }
    ++it;
  }
}

void Simulator::Interrupted(uint32_t service, uint32_t group) {
  FakeHost::Interrupted(service, group);
  // As in the runner: what is in flight is reported, what is queued is not.
  std::erase_if(loads_, [&](const std::shared_ptr<Load>& load) {
    if (load->io.service != service || load->io.group != group) return false;
    load->is_interrupted = true;
    return !load->is_begun;
  });
}

void Simulator::Execute(prefetch_ios* list) {
  if (list == nullptr) return;
  for (uint32_t i = 0; (list->flags & PPC_IOS_REPLACE) && i < list->nr; i++) {
    Interrupted(list->ios[i].service, list->ios[i].group);
  }
  for (uint32_t i = 0; i < list->nr; i++) {
    const ppc_io& io = list->ios[i];
    if (files.count(io.file) == 0 || !cached_.contains(io.file)) continue;
    auto load = std::make_shared<Load>();
    load->io = io;
    load->at = io.offset / kPage * kPage;
    load->end = std::min(io.offset + io.size, files[io.file].size);
    load_flags.insert(io.flags);
    loads_.push_back(std::move(load));
  }
}

void Simulator::Execute(evict_ios* list) {
  for (uint32_t i = 0; list != nullptr && i < list->nr; i++) {
    const ppc_io& io = list->ios[i];
    const EvictResult result = machine_->kernel.Evict({.file = cached_.at(io.file)->number,
                                                       .offset = io.offset,
                                                       .length = io.size,
                                                       .unmap = (io.flags & PPC_IO_UNMAP) != 0});
    ppc_result r = ResultOf(PPC_EVICTED, io);
    r.resident = result.asked;
    r.mapped = result.mapped;
    r.ok = result.dropped;
    evicted_of[io.service] += r.ok;
    results_.push_back(r);
  }
}

// ---------------------------------------------------------------------- runtime

void Simulator::EvictHook(miss_io* event) {
  if (ops().ppc_evict != nullptr) Execute(ops().ppc_evict(event));
  UpdateMemory();
}

void Simulator::HandleEvent(miss_io event) {
  UpdateMemory();
  bool miss = event.kind == PPC_MISS_READ || event.kind == PPC_MISS_FAULT;
  if (memory.used > memory.threshold && (miss || event.kind == PPC_PROGRESS)) {
    is_above_ = ops().ppc_plan != nullptr;
    if (!is_above_) EvictHook(&event);
  }
  if (miss && ops().ppc_prefetch != nullptr) {
    Execute(ops().ppc_prefetch(&event));
  } else if (!miss && ops().ppc_event != nullptr) {
    ops().ppc_event(&event);
  }
}

// The loader pulls while it has room; starved of it, it asks for evictions.
void Simulator::PlanLoop() {
  if (ops().ppc_plan == nullptr) return;
  uint64_t most = std::min<uint64_t>(options_.limit / 8, 64 << 20);
  for (int i = 0; i < 16; i++) {
    UpdateMemory();
    if (memory.inflight >= most) return;
    prefetch_ios* list = nullptr;
    // Each service in turn.
    for (size_t turn = 0; turn < services.size() && (list == nullptr || list->nr == 0); turn++) {
      ppc_plan_request request = {};
      request.max_bytes = std::min(most - memory.inflight, memory.room);
      request.memory = &memory;
      request.service = services[plan_turn_++ % services.size()];
      list = request.max_bytes != 0 ? ops().ppc_plan(&request) : nullptr;
    }
    if (list == nullptr || list->nr == 0) {
      if (memory.room < (16 << 20) && step_ >= starved_ms_ + 20) {
        starved_ms_ = step_;
        EvictHook(nullptr);
        continue;
      }
      return;
    }
    Execute(list);
  }
}

void Simulator::StepRuntime() {
  TakeEvents();
  while (!events_.empty()) {
    miss_io event = events_.front();
    events_.pop_front();
    HandleEvent(event);
  }
  if (std::exchange(is_above_, false)) EvictHook(nullptr);
  StepLoads();
  while (!results_.empty()) {
    ppc_result r = results_.front();
    results_.pop_front();
    if (ops().ppc_done != nullptr) ops().ppc_done(&r);
  }
  if (step_ % 200 == 0) {
    UpdateMemory();
    if (memory.used > memory.threshold || (want != ~0u && (want & PPC_WANT_EVICT)))
      EvictHook(nullptr);
    if (ops().ppc_tick != nullptr) ops().ppc_tick(now_ns);
  }
  RunBackground();
  PlanLoop();
  StepLoads();
  Attach();
}

void Simulator::RunFor(uint64_t ms) {
  if (!is_down_) Attach();
  for (uint64_t end = step_ + ms; step_ < end; step_++) {
    now_ns = kStartNs + step_ * kMsNs;
    for (Reader& r : readers) {
      if (r.finished()) continue;
      if (r.task == nullptr || r.task->machine.lock() != machine_ || r.task->fiber->IsDone())
        Begin(&r);
    }
    machine_->RunTo(now_ns);
    if (!is_down_) StepRuntime();
    UpdateMemory();
  }
}

bool Simulator::Run(uint64_t max_ms) {
  for (uint64_t end = step_ + max_ms; step_ < end;) {
    RunFor(1);
    if (std::all_of(readers.begin(), readers.end(), [](const Reader& r) { return r.finished(); })) {
      return true;
    }
  }
  return false;
}

}  // namespace ppc::test
