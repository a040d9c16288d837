// SPDX-License-Identifier: Apache-2.0
#include "sim/replay.h"

#include <algorithm>
#include <utility>

namespace ppc::sim {
namespace {

constexpr uint64_t kWeightsBytes = 32 << 20;  // "load" begins with a file of this size

bool IsAccess(const Event& event, bool has_accesses) {
  if (event.length == 0) return false;
  if (has_accesses) return event.kind == EventKind::kAccess;
  return IsMiss(event.kind) || event.kind == EventKind::kProgress;
}

}  // namespace

void LogService::AddFiles(PageCache* cache, const EventLog& log) {
  for (const LoggedFile& file : log.files) {
    if (cache->FindPath(file.path) == nullptr) cache->AddFile(file.path, file.size, "");
  }
}

LogService::LogService(Kernel* kernel, const EventLog& log, uint32_t nodes, bool through_ppc,
                       const std::string& proc)
    : kernel_(kernel), through_ppc_(through_ppc) {
  for (const LoggedFile& file : log.files) paths_[file.file] = file.path;
  const bool has_accesses = std::any_of(log.events.begin(), log.events.end(), [](const Event& e) {
    return e.kind == EventKind::kAccess;
  });
  int workers = 0;
  for (const Event& event : log.events) {
    if (!IsAccess(event, has_accesses) || paths_.count(event.file) == 0) continue;
    if (first_ns_ == 0) first_ns_ = event.time_ns;
    auto [it, is_new] = processes_.try_emplace(event.tgid);
    if (is_new) {
      // The first reader is worker 0.
      it->second.node = workers % static_cast<int>(nodes);
      it->second.pid = 1'000'000'000 + event.tgid;
      it->second.slot = static_cast<uint32_t>(workers) % 16;
      MakeProcess(kernel->scheduler(), &it->second, workers++, proc);
    }
    Player& player = players_[event.tid];
    player.thread.process = &it->second;
    player.thread.tid = it->second.pid + event.tid - event.tgid;
    player.events.push_back(event);
  }
}

ServiceReport LogService::Run() {
  Scheduler& scheduler = kernel_->scheduler();
  self_ = scheduler.Current();
  report_.exec_ns = scheduler.NowNs();
  left_ = players_.size();
  for (auto& [tid, player] : players_) {
    scheduler.Spawn([this, one = &player] { Play(one); });
  }
  while (left_ > 0) scheduler.Wait();
  report_.ready_ns = scheduler.NowNs();
  if (report_.load_ns == 0) report_.load_ns = report_.exec_ns;
  return report_;
}

void LogService::Play(Player* player) {
  Scheduler& scheduler = kernel_->scheduler();
  uint64_t before_ns = first_ns_;
  bool was_hit = true;
  for (const Event& event : player->events) {
    if (was_hit && event.time_ns > before_ns) {
      kernel_->cpus().Settle(&player->thread);
      scheduler.Sleep(event.time_ns - before_ns);
    }
    before_ns = event.time_ns;
    was_hit = (event.flags & kEventHit) != 0;
    OpenFile*& open = player->open[event.file];
    if (open == nullptr) {
      CacheFile* file = kernel_->cache().FindPath(paths_[event.file]);
      open = kernel_->Open(&player->thread, file, through_ppc_, (event.flags & kEventDirect) != 0);
    }
    if (report_.load_ns == 0 && open->file->bytes >= kWeightsBytes) {
      report_.load_ns = scheduler.NowNs();
    }
    const uint64_t end = std::min(event.offset + event.length, open->file->bytes);
    if (event.offset >= end) continue;
    if ((event.flags & kEventMmap) != 0 || event.kind == EventKind::kMissFault) {
      kernel_->Access(&player->thread, open, event.offset, end - event.offset);
    } else {
      kernel_->Read(&player->thread, open, event.offset, end - event.offset);
    }
    report_.bytes += end - event.offset;
  }
  kernel_->cpus().Settle(&player->thread);
  for (auto& [file, open] : player->open) {
    kernel_->Munmap(&player->thread, open);
    kernel_->Close(&player->thread, open);
  }
  report_.majflt += player->thread.majflt;
  if (--left_ == 0) scheduler.Wake(self_);
}

}  // namespace ppc::sim
