// SPDX-License-Identifier: Apache-2.0
#include "policies/maio/idle_models.h"

#include <algorithm>
#include <utility>

#include "policies/maio/template/file_kind.h"

namespace ppc::maio {
namespace {

constexpr size_t kMostFiles = 4096;  // more are not looked at

// Where a service has several workers, each has a place of its own.
bool IsPossible(const ServiceRun& run) {
  constexpr uint32_t kNeeded = PPC_CAN_PROGRESS | PPC_CAN_UNMAP;
  return run.config.bar && (run.context->caps & (kNeeded | PPC_IS_SAMPLED)) == kNeeded &&
         run.spec.workers <= 1 && run.spec.nodes == 1;
}

}  // namespace

IdleModels::IdleModels(const ServiceRun* run)
    : run_(run), is_on_(IsPossible(*run)), cookie_(run->cookie() | kIdleModelsTag) {}

// Of another file, or after a rest.  False: it is no model's.
bool IdleModels::Begin(const miss_io& event) {
  auto known = files_.find(event.file);
  if (known == files_.end()) {
    const bool is_model = event.path != nullptr && event.file_bytes > kSmallBytes &&
                          KindOfPath(event.path, event.file_bytes) != FileKind::kSmall;
    if (!is_model || files_.size() >= kMostFiles) return false;
    known = files_.emplace(event.file, File{event.file, event.file_bytes}).first;
    known->second.read.resize((event.file_bytes + kChunkBytes - 1) / kChunkBytes);
  }
  File& file = known->second;
  if (turn_ == 0 || event.time_ns >= used_ns_ + kQuietNs) {
    const bool is_same = file.used != 0 && file.used == turn_;
    switches_ = is_same ? 0 : switches_ + 1;
    if (is_same) file.was_evicted = false;
    comes_by_turns_ = file.used != 0 && switches_ > kLeastSwitches;
    missed_ = before_ = 0;
    turn_++;
  }
  if (file.used != turn_) {
    if (file.used != 0) before_ = file.used;
    file.used = turn_;
    file.begun_ns = event.time_ns;
    file.is_mapped = false;
  }
  if (file_ != nullptr) file_->is_mapped = false;
  file_ = &file;
  return true;
}

void IdleModels::NoteRead(const miss_io& event) {
  used_ns_ = std::max(used_ns_, event.time_ns);
  at_ = event.offset;
  if (event.kind == PPC_MISS_READ || event.kind == PPC_MISS_FAULT) missed_ += event.size;
  if (event.time_ns >= dropped_ns_ + kHitsNs) lost_ = 0;
  const size_t end = (event.offset + event.size + kChunkBytes - 1) / kChunkBytes;
  for (size_t i = event.offset / kChunkBytes; i < std::min(end, file_->read.size()); ++i) {
    uint32_t& read = file_->read[i];
    if ((read & kDropped) != 0 && lost_ != 0) --lost_;
    if (read == (turn_ | kDropped)) file_->unmaps = false;  // it is used again
    read = turn_;
  }
}

// LRU takes the beginning of what is idle, whatever was used without an event.
bool IdleModels::IsEvicted(File* first) const {
  const uint64_t head = std::min(first->bytes, kChunkBytes);
  ppc_residency there = {};
  if (lost_ == 0) first->was_evicted = false;
  if (!first->was_evicted)
    first->was_evicted =
        run_->context->resident(run_->context, first->number, 0, head, &there, nullptr, 0) == 0 &&
        there.resident < head;
  return first->was_evicted;
}

// The last chunk of what was read in a turn; of the present one, of what its reader has passed.
IdleModels::File* IdleModels::Last(uint32_t turn, size_t* chunk) {
  File* best = nullptr;
  for (auto& [number, file] : files_) {
    const bool is_later = best == nullptr || file.begun_ns > best->begun_ns;
    if (file.used != turn || file.is_mapped || !is_later) continue;
    size_t end = file.read.size();
    if (&file == file_) end = std::min(end, (at_ - std::min(at_, kPassedBytes)) / kChunkBytes);
    const auto is_there = [&](uint32_t read) {
      return turn == turn_ ? read == turn : read != 0 && (read & kDropped) == 0;
    };
    while (end > 0 && !is_there(file.read[end - 1])) --end;
    if (end == 0) continue;
    best = &file;
    *chunk = end - 1;
  }
  return best;
}

// Of what is needed last: a model that comes by turns itself, then the one read last; else the one
// that was read longest ago.
IdleModels::File* IdleModels::Victim(bool may_take_idle, size_t* chunk) {
  File* file = comes_by_turns_ ? Last(turn_, chunk) : nullptr;
  if (file != nullptr || !may_take_idle) return file;
  const auto take = [&](auto& model) {
    if (IsEvicted(model.second)) file = Last(model.first, chunk);
    return file != nullptr;
  };
  if (comes_by_turns_)
    (void)std::any_of(idle_.rbegin(), idle_.rend(), take);
  else
    (void)std::any_of(idle_.begin(), idle_.end(), take);
  return file;
}

// What is loaded ahead stays below the threshold, its reader takes what there is: as much again may
// come until the next look.
uint64_t IdleModels::Wanted(const ppc_memory& memory, bool is_loading) {
  const uint64_t step = EvictStep(memory);
  const uint64_t missed = std::exchange(missed_, 0);
  const uint64_t taken = memory.used + (is_loading ? memory.inflight + 2 * kChunkBytes
                                                   : std::max(step, memory.limit / 64) + missed);
  const uint64_t free = (is_loading ? memory.threshold : memory.limit) + dropping_;
  return taken > free ? std::min(taken - free, step) : 0;
}

bool IdleModels::Evict(const Evictor::Held& held, uint64_t next_load, IoList* out) {
  const ppc_memory memory = run_->Memory();
  uint64_t needed = memory.used - std::min(memory.used, memory.cache);
  idle_.clear();
  for (auto& [number, file] : files_) {
    if (IsOfModel(file)) {
      needed += file.bytes;
    } else if (File*& first = idle_[file.used];
               first == nullptr || file.begun_ns < first->begun_ns) {
      first = &file;
    }
  }
  const bool may_make = memory.is_cgroup != 0 && !idle_.empty() && needed <= memory.limit;
  if (uses_limit_ != (may_make && lost_ != 0)) (void)run_->UseLimit(uses_limit_ = !uses_limit_);
  if (!may_make) return false;
  const auto next = files_.find(next_load);
  const bool is_loading = next_load != 0 && (next == files_.end() || IsOfModel(next->second));
  const bool is_missed = missed_ != 0;
  uint64_t wanted = is_missed || is_loading ? Wanted(memory, is_loading) : 0;
  while (wanted > 0) {
    size_t chunk = 0;
    File* const file = Victim(is_missed || !comes_by_turns_ || file_->is_mapped, &chunk);
    if (file == nullptr) break;
    file->read[chunk] = turn_ | kDropped;
    const uint64_t from = chunk * kChunkBytes;
    const uint64_t bytes = std::min(kChunkBytes, file->bytes - from);
    if (held(file->number, from / kPage, (bytes + kPage - 1) / kPage)) continue;
    ppc_io& io = out->Add(file->number, from, bytes);
    io.flags = file == file_ && file->unmaps ? PPC_IO_UNMAP : 0;
    io.cookie = cookie_;
    dropping_ += bytes;
    wanted -= std::min(wanted, bytes);
    dropped_ns_ = used_ns_;
    lost_++;
  }
  return true;
}

void IdleModels::Done(const ppc_result& result) {
  dropping_ -= std::min(dropping_, result.size);
  const auto known = files_.find(result.file);
  if (known == files_.end()) return;
  File& file = known->second;
  // A process may compute from it, or the guard refuses.
  if (result.mapped > result.size / 2) file.is_mapped = true;
  if (result.mapped == 0 && file.used == turn_ && &file != file_) file.unmaps = true;
}

}  // namespace ppc::maio
