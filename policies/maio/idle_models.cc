// SPDX-License-Identifier: Apache-2.0
#include "policies/maio/idle_models.h"

#include <algorithm>
#include <map>
#include <utility>

#include "policies/maio/base/run.h"
#include "policies/maio/base/tuning.h"
#include "policies/maio/synth/synth_names.h"

namespace ppc::maio {
namespace {

constexpr size_t kMostFiles = 4096;          // more are forgotten, all of them
constexpr uint64_t kIdleNs = 1'000'000'000;  // without an event

std::string ModelOf(const std::string& path, uint64_t bytes) {
  const FileKind kind = KindOfPath(path, bytes);
  const bool is_one = kind != FileKind::kSmall && (HasContents(kind) || bytes > kSmallBytes);
  return is_one ? Join(DirOf(path), SetOf(NameOf(path))) : "";
}

}  // namespace

void IdleModels::Note(const miss_io& event) {
  if (event.path == nullptr) return;
  if (files_.size() >= kMostFiles) files_.clear();
  const auto [known, is_new] = files_.try_emplace(event.file);
  File& file = known->second;
  if (is_new) file = {event.path, ModelOf(event.path, event.file_bytes), event.file_bytes, 0, 0};
  if (file.model.empty()) return;
  file.used_ns = event.time_ns;
  if (event.offset + event.size > file.end) file.end = file.bytes;
  if (read_ != file.model) read_ = file.model;
  service_ = static_cast<uint32_t>(event.service);
  if (event.kind == PPC_MISS_READ || event.kind == PPC_MISS_FAULT) missed_ += event.size;
}

// Of the model that was read longest ago.  What is read from the cache is not told of: the guard
// finds out.
uint64_t IdleModels::DropLast(const Evictor::Held& held, IoList* out) {
  std::map<std::string, uint64_t> used;
  for (const auto& [number, file] : files_)
    used[file.model] = std::max(used[file.model], file.used_ns);
  const uint64_t now = context_->now_ns(context_);
  std::pair<const uint64_t, File>* last = nullptr;
  for (auto& each : files_) {
    const File& file = each.second;
    const uint64_t used_ns = used[file.model];
    const bool is_idle = file.model != read_ && now >= used_ns + kIdleNs;
    if (file.end == 0 || !is_idle) continue;
    const uint64_t least = last == nullptr ? ~0ull : used[last->second.model];
    if (used_ns < least || (used_ns == least && file.path > last->second.path)) last = &each;
  }
  if (last == nullptr) return 0;
  File& file = last->second;
  const uint64_t from = (file.end - 1) / kChunkBytes * kChunkBytes;
  const uint64_t bytes = std::exchange(file.end, from) - from;
  if (held(last->first, from / kPage, (bytes + kPage - 1) / kPage)) return bytes;
  // Not what is mapped: a process may compute from it.
  ppc_io& io = out->Add(last->first, from, bytes);
  io.service = service_;
  io.cookie = kIdleModelsTag;
  dropping_ += bytes;
  has_dropped_ = true;
  return bytes;
}

void IdleModels::Evict(const Evictor::Held& held, bool is_loading, IoList* out) {
  const uint64_t missed = std::exchange(missed_, 0);
  ppc_memory memory = {};
  if (missed == 0 && !is_loading) return;
  if (context_->memory(context_, service_, &memory) != 0 || memory.is_cgroup == 0) return;
  // Nothing has to go, or all goes in any case.
  const uint64_t own = memory.used - std::min(memory.used, memory.cache);
  uint64_t all = own;
  uint64_t read = own;
  for (const auto& [number, file] : files_) {
    all += file.end;
    if (file.model == read_) read += file.bytes;
  }
  if (all <= memory.limit || read > memory.limit) return;
  // As much again may come until the next look.
  const uint64_t margin = std::max(EvictStep(memory), memory.limit / kLimitMargin) + missed;
  const uint64_t taken = memory.used + (is_loading ? memory.inflight + 2 * kChunkBytes : margin);
  const uint64_t free = (is_loading ? memory.threshold : memory.limit) + dropping_;
  uint64_t wanted = taken > free ? std::min(taken - free, EvictStep(memory)) : 0;
  while (wanted > 0) {
    const uint64_t bytes = DropLast(held, out);
    if (bytes == 0) return;
    wanted -= std::min(wanted, bytes);
  }
}

bool IdleModels::Done(const ppc_result& result) {
  if (result.cookie != kIdleModelsTag) return false;
  dropping_ -= std::min(dropping_, result.size);
  const auto file = files_.find(result.file);
  // It is used after all, or the guard says so.
  if (result.mapped > result.size / 2 && file != files_.end())
    file->second.used_ns = context_->now_ns(context_);
  return true;
}

}  // namespace ppc::maio
