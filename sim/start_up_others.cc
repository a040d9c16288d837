// SPDX-License-Identifier: Apache-2.0
// The other processes of a start-up: other services, and strangers.
#include <algorithm>
#include <random>
#include <string>

#include "sim/start_up.h"

namespace ppc::sim {

std::string OtherDirectory(const Scenario& scenario, size_t other) {
  return scenario.others[other].model.empty() ? scenario.directory
                                              : "m" + std::to_string(other + 1);
}

std::string OtherId(const Scenario& scenario, size_t other) {
  return scenario.service_id + "-" + std::to_string(other + 1);
}

const ModelFiles& StartUp::ModelOf(size_t other) const {
  return s_.others[other].model.empty() ? model_ : other_models_[other];
}

// Files of a consumer of KV-cache objects, instead of a model.
uint64_t StartUp::AddObjects(PageCache* cache) {
  model_.shards = KvService::AddFiles(cache, s_.kv, s_.directory);
  return model_.bytes = s_.kv.bytes();
}

ServiceReport StartUp::ServeObjects(bool through_ppc, const std::string& proc) {
  KvOptions kv = s_.kv;
  kv.is_dropped &= !s_.system.is_cached;
  return KvService(kernel_.get(), kv, seed_, through_ppc, proc).Run(model_.shards);
}

void StartUp::RunOther(size_t index) {
  const bool through_ppc = supervisor_ != nullptr;
  const OtherService& other = s_.others[index];
  OtherServiceResult& result = result_.others[index];
  const ModelFiles& model = ModelOf(index);
  const auto number = static_cast<uint32_t>(index + 1);
  const ServiceOptions service = Complete(other.service, model, number, OtherId(s_, index),
                                          other.consumer > 0 ? other.consumer : s_.consumer);
  if (other.after_s > 0) scheduler_->Sleep(static_cast<uint64_t>(other.after_s * 1e9));
  result.zero_ns = scheduler_->NowNs();
  result.model_bytes = model.bytes;
  if (through_ppc) {
    const Status started = StartService(MountOf(index), service);
    if (!started) status_ = started;
    scheduler_->Sleep(static_cast<uint64_t>(s_.system.hook_s * 1e9));
  }
  result.report =
      Service(kernel_.get(), &model, service, through_ppc, through_ppc ? directory_ : "").Run();
  NoteFirstReady();
  if (through_ppc) SendReady(MountOf(index), service.id, nullptr);
  --others_left_;
}

// Leaves a little memory: without any the kernel would kill a process, which is not modelled.
void StartUp::Grow(uint64_t bytes) {
  constexpr uint64_t kLeftBytes = 8 << 20;
  const MemoryOptions& memory = cache_->options();
  const uint64_t end = memory.limit_bytes == 0 ? UINT64_MAX : memory.limit_bytes - kLeftBytes;
  const uint64_t free = end > memory.other_bytes ? end - memory.other_bytes : 0;
  cache_->SetOther(memory.other_bytes + std::min(bytes, free));
}

void StartUp::RunNeighbour(const Neighbour& neighbour, uint32_t index) {
  constexpr uint64_t kCallBytes = 128 << 10;
  constexpr int kSteps = 10;
  const auto every_ns = static_cast<uint64_t>(neighbour.every_s * 1e9);
  if (neighbour.after_s > 0) scheduler_->Sleep(static_cast<uint64_t>(neighbour.after_s * 1e9));
  if (neighbour.way == Neighbour::Way::kGrows) {
    for (int i = 0; i < kSteps; ++i, scheduler_->Sleep(every_ns)) Grow(neighbour.bytes / kSteps);
    return;
  }
  if (neighbour.way == Neighbour::Way::kDrops) {
    for (;; scheduler_->Sleep(every_ns)) cache_->DropUnmapped();
  }
  Process process{.pid = 950'000'000 + static_cast<int>(index), .slot = kMaxProcesses - 1};
  Thread thread{.process = &process, .tid = process.pid};
  CacheFile* const file = cache_->FindPath("neighbour-" + std::to_string(index));
  OpenFile* const open = kernel_->Open(&thread, file, /*through_ppc=*/false, false);
  // Yields the CPU at least after each pass.
  for (;; scheduler_->Sleep(every_ns))
    for (uint64_t at = 0; at < file->bytes; at += kCallBytes)
      kernel_->Read(&thread, open, at, kCallBytes);
}

void StartUp::RunStranger(const Stranger& stranger, uint32_t index) {
  constexpr uint64_t kCallBytes = 128 << 10;
  if (stranger.after_s > 0) scheduler_->Sleep(static_cast<uint64_t>(stranger.after_s * 1e9));
  Process process{.pid = 900'000'000 + static_cast<int>(index),
                  .slot = kMaxProcesses - 1 - index,
                  .node = static_cast<int>(index % s_.nodes)};
  MakeProcess(*scheduler_, &process, -1, directory_);
  Thread thread{.process = &process, .tid = process.pid};
  std::mt19937_64 random(seed_ + index);
  for (const std::string& path : model_.shards) {
    OpenFile* open = kernel_->Open(&thread, cache_->FindPath(path), /*through_ppc=*/true, false);
    const uint64_t bytes = open->file->bytes;
    for (uint64_t at = 0; at < bytes; at += kCallBytes) {
      const uint64_t part = std::min(kCallBytes, bytes - at);
      if (stranger.way == Stranger::Way::kRead) kernel_->Read(&thread, open, at, part);
      if (stranger.way == Stranger::Way::kMap) kernel_->Access(&thread, open, at, part);
      // An eighth: 4 of 32 pages.
      for (int i = 0; stranger.way == Stranger::Way::kTouch && i < 4; ++i)
        kernel_->Access(&thread, open, random() % (bytes / kPage) * kPage, kPage);
    }
    if (stranger.way != Stranger::Way::kRead) kernel_->Munmap(&thread, open);
    kernel_->cpus().Settle(&thread);
    kernel_->Close(&thread, open);
  }
}

void StartUp::NoteFirstReady() {
  if (!result_.read_by_first_ready.empty()) return;
  const auto read_of = [this](const ModelFiles& model) {
    uint64_t bytes = 0;
    for (const std::string& path : model.shards) {
      const CacheFile* file = cache_->FindPath(path);
      for (uint32_t i = file->first; i < file->first + file->pages; ++i)
        bytes += cache_->page(i).ever_read ? kPage : 0;
    }
    return bytes;
  };
  result_.read_by_first_ready.push_back(read_of(model_));
  for (size_t i = 0; i < s_.others.size(); ++i)
    result_.read_by_first_ready.push_back(read_of(ModelOf(i)));
}

}  // namespace ppc::sim
