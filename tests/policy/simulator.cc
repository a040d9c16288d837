// SPDX-License-Identifier: Apache-2.0
// See simulator.h.
#include "tests/policy/simulator.h"

#include <algorithm>
#include <utility>

namespace ppc::test {

Simulator::Simulator(const std::string& policy_path, const Options& options)
    : HostedPolicy(policy_path), options_(options), start_ns_(now_ns) {
  if (options_.limit == 0) options_.limit = 64ull << 30;
}

int Simulator::Init() {
  for (auto& [number, file] : files) {
    pages_[number].state.assign((file.size + kPage - 1) / kPage, 0);
  }
  UpdateMemory();
  return HostedPolicy::Init();
}

nlohmann::json Simulator::Control(const nlohmann::json& message) {
  UpdateMemory();
  return HostedPolicy::Control(message);
}

bool Simulator::IsResident(uint64_t file, uint64_t offset) const {
  return pages_.at(file).state[offset / kPage] & kResident;
}

void Simulator::DropAll() {
  for (auto& [number, pages] : pages_) {
    for (uint8_t& s : pages.state) s = 0;
  }
  resident_pages_ = 0;
  lru_.clear();
}

void Simulator::UpdateMemory() {
  uint64_t cache = resident();
  memory.limit = options_.limit;
  memory.threshold = uses_limit ? options_.limit - options_.limit / 64 : options_.limit / 5 * 4;
  memory.cache = cache;
  memory.used = cache + options_.other;
  memory.inflight = 0;
  for (const Load& load : loads_) memory.inflight += load.io.offset + load.io.size - load.at;
  uint64_t taken = memory.used + memory.inflight;
  memory.room = memory.threshold > taken ? memory.threshold - taken : 0;
  memory.is_cgroup = options_.is_cgroup ? 1 : 0;
  peak = std::max(peak, memory.used);
}

void Simulator::Emit(const Reader& r, uint32_t kind, uint64_t file, uint64_t page, uint64_t pages,
                     uint32_t flags) {
  miss_io e = Event(kind, file, page * kPage, pages * kPage, r.pid);
  e.xpu = r.xpu;
  e.service = r.service;
  e.flags = flags | (r.mapped ? PPC_F_MMAP : 0);
  events_.push_back(e);
  events_sent++;
}

// True when the page is there and was touched.
bool Simulator::Touch(Reader* r, const Access& a, uint64_t page) {
  if ((a.flags & PPC_F_DIRECT) != 0) {
    if (r->done == 0) Emit(*r, PPC_OPEN, a.file, 0, 0, a.flags);
    return true;
  }
  Pages& pages = pages_[a.file];
  uint8_t& state = pages.state[page];
  if (!(state & kResident)) {
    const bool is_asked = std::ranges::any_of(demands_, [&](const Demand& d) {
      return d.file == a.file && d.page <= page && page < d.end;
    });
    if (r->waiting && is_asked) return false;  // else it was dropped before it was read
    r->waiting = true;
    uint64_t window = std::max<uint64_t>(window_bytes / kPage, 1);
    uint64_t first = page / window * window;
    uint64_t end = std::min<uint64_t>(first + window, pages.state.size());
    uint64_t absent = page;
    while (absent < end && !(pages.state[absent] & kResident)) absent++;
    // A fault tells of its page alone, whatever the kernel reads for it.
    Emit(*r, r->mapped ? PPC_MISS_FAULT : PPC_MISS_READ, a.file, page,
         r->mapped ? 1 : absent - page, a.flags);
    demands_.push_back({a.file, first, end, step_ + options_.demand_latency_ms});
    return false;
  }
  r->waiting = false;
  if (r->mapped) state |= kMapped;
  if (want != ~0u && (want & PPC_WANT_TRACE)) {
    miss_io* last = events_.empty() ? nullptr : &events_.back();
    if (last != nullptr && last->kind == PPC_ACCESS && last->pid == r->pid &&
        last->file == a.file && last->offset + last->size == page * kPage &&
        last->size < (1 << 20)) {
      last->size += kPage;
    } else {
      Emit(*r, PPC_ACCESS, a.file, page, 1, a.flags | PPC_F_HIT);
    }
  } else if ((want & PPC_WANT_PROGRESS) && want != ~0u) {
    uint64_t step = beacon_bytes / kPage;
    auto [it, is_new] = r->beacon.try_emplace(a.file, page);
    uint64_t far = page > it->second ? page - it->second : it->second - page;
    if (is_new || far >= step) {
      it->second = page;
      Emit(*r, PPC_PROGRESS, a.file, page, 1, a.flags | PPC_F_HIT);
    }
  }
  return true;
}

void Simulator::StepReader(Reader* r) {
  if (step_ < r->start_ms || r->finished()) return;
  r->credit += r->bytes_per_ms;
  while (!r->finished() && r->credit >= kPage) {
    const Access& a = r->accesses[r->at];
    if (step_ < a.not_before_ms) {
      r->credit = 0;
      return;
    }
    if (!Touch(r, a, (a.offset + r->done) / kPage)) {
      r->stall_ms++;
      r->credit = std::min<uint64_t>(r->credit, r->bytes_per_ms);  // a stalled reader falls behind
      return;
    }
    r->credit -= kPage;
    r->done += kPage;
    if (r->done >= a.size) {
      r->done = 0;
      r->at++;
      if (r->finished()) r->end_ms = step_;
    }
  }
}

// Returns false when it was there already.
bool Simulator::LoadPage(uint64_t file, uint64_t page) {
  uint8_t& state = pages_[file].state[page];
  if (state & kResident) return false;
  if (state & kLoadedOnce) reread_bytes += kPage;
  if (state & kDropped) refault_bytes += kPage;
  state |= kResident | kLoadedOnce;
  resident_pages_++;
  disk_bytes += kPage;
  lru_.emplace_back(file, page);
  Reclaim();
  return true;
}

// The kernel's way when the limit is hit: the oldest goes.
void Simulator::Reclaim() {
  while (resident() + options_.other > options_.limit && !lru_.empty()) {
    auto [file, page] = lru_.front();
    lru_.pop_front();
    uint8_t& state = pages_[file].state[page];
    if (!(state & kResident)) continue;
    state &= static_cast<uint8_t>(~(kResident | kMapped));
    resident_pages_--;
    reclaimed_bytes += kPage;
  }
}

// True when the load has ended.
bool Simulator::StepLoad(Load* load, uint64_t* budget) {
  uint64_t end = std::min(load->io.offset + load->io.size, files[load->io.file].size);
  while (load->at < end && *budget >= kPage) {
    const bool is_waited = (load->io.flags & PPC_IO_WAITED) != 0;
    if (!is_waited && resident() + options_.other >= memory.threshold) {
      Report(*load, true);
      return true;
    }
    if (LoadPage(load->io.file, load->at / kPage)) {
      load->ok += kPage;
      *budget -= kPage;
      node_bytes[load->io.xpu < 0 ? -1 : xpu_nodes[load->io.xpu]] += kPage;
    } else {
      load->resident += kPage;
    }
    load->at += kPage;
  }
  if (load->at < end) return false;
  Report(*load, false);
  return true;
}

void Simulator::StepDisk() {
  uint64_t budget = options_.disk_bytes_per_ms + disk_credit_;
  for (auto it = demands_.begin(); it != demands_.end();) {
    if (step_ < it->ready_ms) {
      ++it;
      continue;
    }
    while (it->page < it->end && budget >= kPage) {
      if (LoadPage(it->file, it->page)) {
        budget -= kPage;
        demand_bytes += kPage;
      }
      it->page++;
    }
    it = it->page >= it->end ? demands_.erase(it) : std::next(it);
  }
  while (budget >= kPage && !loads_.empty()) {
    uint64_t before = budget;
    uint32_t active = 0;
    uint64_t share =
        std::max<uint64_t>(budget / std::min<size_t>(options_.loaders, loads_.size()), kPage);
    for (auto it = loads_.begin(); it != loads_.end() && active < options_.loaders; active++) {
      uint64_t part = std::min(share, budget);
      uint64_t left = part;
      bool ended = StepLoad(&*it, &left);
      budget -= part - left;
      it = ended ? loads_.erase(it) : std::next(it);
    }
    if (budget == before) break;
  }
  disk_credit_ = budget < kPage ? budget : 0;
}

void Simulator::Report(const Load& load, bool interrupted) {
  ppc_result r = {};
  r.kind = PPC_LOADED;
  r.group = load.io.group;
  r.file = load.io.file;
  r.offset = load.io.offset;
  r.size = load.io.size;
  r.cookie = load.io.cookie;
  r.ok = load.ok;
  r.resident = load.resident;
  r.interrupted = interrupted;
  results_.push_back(r);
}

void Simulator::Interrupted(uint32_t service, uint32_t group) {
  FakeHost::Interrupted(service, group);
  // As in the runner: what is in flight is reported, what is queued is not.
  uint32_t index = 0;
  for (auto it = loads_.begin(); it != loads_.end(); index++) {
    if (it->io.service != service || it->io.group != group) {
      ++it;
      continue;
    }
    if (index < options_.loaders) Report(*it, true);
    it = loads_.erase(it);
  }
}

void Simulator::Execute(prefetch_ios* list) {
  if (list == nullptr) return;
  for (uint32_t i = 0; (list->flags & PPC_IOS_REPLACE) && i < list->nr; i++) {
    Interrupted(list->ios[i].service, list->ios[i].group);
  }
  for (uint32_t i = 0; i < list->nr; i++) {
    if (files.count(list->ios[i].file) == 0) continue;
    Load load;
    load.io = list->ios[i];
    load.at = load.io.offset / kPage * kPage;
    load_flags.insert(load.io.flags);
    loads_.push_back(load);
  }
}

void Simulator::Execute(evict_ios* list) {
  for (uint32_t i = 0; list != nullptr && i < list->nr; i++) {
    const ppc_io& io = list->ios[i];
    ppc_result r = {};
    r.kind = PPC_EVICTED;
    r.file = io.file;
    r.offset = io.offset;
    r.size = io.size;
    r.cookie = io.cookie;
    auto& state = pages_[io.file].state;
    uint64_t end = std::min<uint64_t>((io.offset + io.size + kPage - 1) / kPage, state.size());
    for (uint64_t p = io.offset / kPage; p < end; p++) {
      if (!(state[p] & kResident)) continue;
      r.resident += kPage;
      if ((state[p] & kMapped) && !(io.flags & PPC_IO_UNMAP)) {
        r.mapped += kPage;
        continue;
      }
      state[p] = static_cast<uint8_t>((state[p] & ~(kResident | kMapped)) | kDropped);
      resident_pages_--;
      r.ok += kPage;
    }
    evicted_bytes += r.ok;
    evicted_of[io.service] += r.ok;
    results_.push_back(r);
  }
}

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
      if (options_.starved_evict && memory.room < (16 << 20) && step_ >= starved_ms_ + 20) {
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
  while (!events_.empty()) {
    miss_io event = events_.front();
    events_.pop_front();
    HandleEvent(event);
  }
  if (std::exchange(is_above_, false)) EvictHook(nullptr);
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
}

void Simulator::RunFor(uint64_t ms) {
  for (uint64_t end = step_ + ms; step_ < end; step_++) {
    now_ns = start_ns_ + step_ * 1'000'000;
    for (Reader& r : readers) StepReader(&r);
    StepDisk();
    if (is_down_) events_.clear();
    if (!is_down_) StepRuntime();
    UpdateMemory();
  }
}

void Simulator::FindResident(uint64_t file, uint64_t offset, uint64_t size, uint8_t* bitmap,
                             size_t bytes, ppc_residency* out) {
  FakeHost::FindResident(file, offset, size, bitmap, bytes, out);
  const std::vector<uint8_t>& state = pages_[file].state;
  for (size_t i = offset / kPage, bit = 0; i < state.size() && bit * kPage < size; i++, bit++) {
    const bool is_there = (state[i] & kResident) != 0;
    if (is_there && bit / 8 < bytes) bitmap[bit / 8] |= static_cast<uint8_t>(1u << bit % 8);
    out->resident += is_there ? kPage : 0;
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
