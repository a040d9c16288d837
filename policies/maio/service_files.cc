// SPDX-License-Identifier: Apache-2.0
//
// Files of a service: what identifies them, whether a template still fits them,
// and recording.  Reads go through the runtime, below the mount only.
#include <algorithm>

#include "policies/maio/service.h"

namespace ppc::maio {
namespace {

constexpr uint64_t kSmallBytes = 32ull << 20;     // files of no known kind up to this are small
constexpr uint64_t kCheckBudgetNs = 400'000'000;  // a hook must not take long
constexpr uint64_t kTickBudgetNs = 30'000'000;
constexpr uint64_t kWarmShare = 100;  // 1/100 of the bytes was cached: suspect
constexpr uint64_t kStaleShare = 10;  // 1/10 of the bytes changed: record again

bool Known(const Fingerprint& fingerprint) { return fingerprint != Fingerprint{}; }

}  // namespace

// This run's number of each file, 0 for those that changed or are gone.
std::vector<uint64_t> Service::CheckFiles(const Template& t) {
  std::vector<uint64_t> numbers(t.files.size(), 0);
  uint64_t deadline = Now() + kCheckBudgetNs;
  stale_files_ = 0;
  synthesized_files_ = 0;
  for (size_t i = 0; i < t.files.size(); i++) {
    const TemplateFile& file = t.files[i];
    ppc_file_info info = {};
    bool good =
        context_->file_info(context_, file.path.c_str(), &info) == 0 && info.size == file.size;
    // A copied model has other times but the same contents.
    if (good && info.mtime_ns != file.mtime_ns && Known(file.fingerprint) && Now() < deadline) {
      good = FingerprintOf(file.path, info.size, nullptr) == file.fingerprint;
    }
    if (good) {
      numbers[i] = info.file;
    } else {
      stale_files_++;
    }
  }
  return numbers;
}

void Service::StartRecording() {
  mode_ = Mode::kRecord;
  recorder_ = std::make_unique<Recorder>(start_ns_);
  stored_bytes_ = tried_bytes_ = 0;
  fingerprinted_ = 0;
}

// Takes what changed since from the headers.
bool Service::StartUsing(Template* t) {
  std::vector<uint64_t> numbers = CheckFiles(*t);
  uint64_t total = 0;
  uint64_t stale = 0;
  for (size_t i = 0; i < numbers.size(); i++) {
    total += t->files[i].size;
    if (numbers[i] == 0) stale += t->files[i].size;
  }
  if (total == 0 || (stale * kStaleShare > total && config_.record != RecordMode::kNever)) {
    reason_ = "the model changed: " + std::to_string(stale_files_) + " of " +
              std::to_string(t->files.size()) + " files";
    return false;
  }
  // Single files that changed: their headers tell what will be read of them.
  for (uint32_t i = 0; i < numbers.size(); i++) {
    ppc_file_info info = {};
    if (numbers[i] == 0 && RepairFile(t, i) &&
        context_->file_info(context_, t->files[i].path.c_str(), &info) == 0)
      numbers[i] = info.file;
  }
  if (synthesized_files_ != 0) {
    if (std::string problem = Check(*t); !problem.empty()) {
      reason_ = "the model changed: " + problem;
      return false;
    }
  }
  mode_ = Mode::kUse;
  generation_ = std::max(generation_, t->generation);
  Follow(*t, numbers);
  return true;
}

void Service::Follow(const Template& t, const std::vector<uint64_t>& numbers) {
  layout_ = std::make_unique<Layout>(t, numbers, config_.max_pieces);
  affinity_ = std::make_unique<Affinity>(context_, *layout_, config_.affinity);
  ppc_memory memory = Memory();
  uint64_t distance = BarDistance(config_, memory.threshold, layout_->groups().size());
  beacon_bytes_ = BeaconBytes(distance);
  // What is in the cache already, of this model perhaps, takes nothing away from it.
  const uint64_t other = memory.used - std::min(memory.used, memory.cache);
  constrained_ = layout_->bytes() > memory.threshold - std::min(memory.threshold, other);
  table_ = std::make_unique<PieceTable>(layout_.get());
  matcher_ = std::make_unique<Matcher>(table_.get(), context_->window_bytes, beacon_bytes_);
  uint64_t cookie = static_cast<uint64_t>(slot_ + 1) << 56;
  // What is still reported of the service that had the slot before is none of ours.
  const uint64_t run = (start_ns_ >> 20 & 0x7fff) << 32;
  planner_ = std::make_unique<Planner>(table_.get(), matcher_.get(), affinity_.get(), spec_.number,
                                       cookie | 1ull << 48 | run);
  evictor_ =
      std::make_unique<Evictor>(table_.get(), matcher_.get(), planner_.get(), distance, cookie);
  stand_down_ = std::make_unique<StandDown>(config_.stand_down);
  if (config_.affinity_fix == AffinityFix::kEvict && config_.affinity && config_.prefetch &&
      (context_->caps & PPC_CAN_NODE) != 0) {
    leftovers_ = std::make_unique<Leftovers>(context_, table_.get(), matcher_.get(),
                                             planner_.get(), affinity_.get(),
                                             config_.affinity_fix_ahead_s, cookie | 1ull << 47);
  }
  BindGroups();
  // An earlier run may have left some to the kernel.
  for (const LayoutFile& file : layout_->files()) {
    if (file.number != 0) context_->file_native(context_, file.number, 0);
  }
  OpenCheckpoint();
  const bool taken_over = TakeOver();
  if (taken_over || memory.room < kChunkBytes) FindCached();
  if (memory.room < kChunkBytes) evictor_->AllowSwap(memory.threshold / 2, Now());
}

// There is no room: an earlier run of the service may have left it full, perhaps of what is needed
// late.  Only what we know to be there can make room.
void Service::FindCached() {
  if (context_->resident == nullptr) return;
  const uint64_t deadline = Now() + kCheckBudgetNs;
  std::vector<uint8_t> bitmap;
  for (const LayoutFile& file : layout_->files()) {
    if (file.number == 0 || Now() > deadline) continue;
    bitmap.assign((file.bytes / kPage + 8) / 8, 0);
    ppc_residency state = {};
    if (context_->resident(context_, file.number, 0, file.bytes, &state, bitmap.data(),
                           bitmap.size()) != 0 ||
        state.resident == 0) {
      continue;
    }
    for (uint32_t p = file.first_piece; p < file.last_piece; p++) {
      const Piece& piece = layout_->pieces()[p];
      bool is_there = true;
      for (uint64_t i = piece.page; is_there && i < piece.end_page() && i * kPage < file.bytes; i++)
        is_there = bitmap[i / 8] >> (i % 8) & 1;
      if (is_there) planner_->Found(p);
    }
  }
}

int32_t Service::LearnFile(const miss_io& event) {
  if (int32_t known = recorder_->FileOf(event.file); known >= 0) return known;
  if (event.path == nullptr || !ValidPath(event.path)) return -1;
  ppc_file_info info = {};
  if (context_->file_info(context_, event.path, &info) != 0) return -1;
  TemplateFile file;
  file.path = event.path;
  file.size = info.size;
  file.mtime_ns = info.mtime_ns;
  file.kind = KindOfPath(file.path);
  if (file.kind == FileKind::kOther && file.size <= kSmallBytes) file.kind = FileKind::kSmall;
  NoteCached(event, info.size);
  return recorder_->AddFile(event.file, file);
}

// Without TRACE only misses are seen: what a file had in the cache before its first one will not
// be in the template.  The first miss's own windows do not count.
void Service::NoteCached(const miss_io& event, uint64_t size) {
  if ((context_->caps & PPC_CAN_TRACE) != 0 || context_->resident == nullptr) return;
  ppc_residency state = {};
  if (context_->resident(context_, event.file, 0, size, &state, nullptr, 0) != 0) return;
  uint64_t own = event.size + 2 * std::max<uint64_t>(context_->window_bytes, kPage);
  cached_bytes_ += state.resident - std::min(state.resident, own);
}

// A recording that was cut short replaces neither a whole one nor one that got further.
bool Service::Supersedes(uint32_t flags) const {
  if ((flags & kPartial) == 0 || stored_bytes_ != 0 || found_.bytes == 0) return true;
  if ((found_.flags & kSynthetic) != 0) return true;
  return (found_.flags & (kPartial | kWarmSuspect)) != 0 && recorder_->bytes() > found_.bytes;
}

void Service::RecordEvent(const miss_io& event) {
  // With TRACE every access comes as ACCESS too; misses alone are the paper's way.
  bool traced = (context_->caps & PPC_CAN_TRACE) != 0;
  bool touch = event.kind == PPC_ACCESS ||
               (!traced && (event.kind == PPC_MISS_READ || event.kind == PPC_MISS_FAULT));
  if (!touch || event.size == 0) return;
  int32_t file = LearnFile(event);
  if (file < 0) return;
  bool weights = recorder_->files()[file].kind != FileKind::kSmall;
  const uint32_t group = workers_.Resolve(event, weights);
  recorder_->Touch(workers_.RecordedAs(event, group), static_cast<uint32_t>(file),
                   event.offset / kPage, (event.offset + event.size + kPage - 1) / kPage,
                   event.time_ns);
}

// A few files at a time: the headers are in the cache, the service has just read them.
void Service::FillFingerprints(uint64_t budget_ns) {
  uint64_t deadline = Now() + budget_ns;
  auto& files = recorder_->files();
  while (fingerprinted_ < files.size() && Now() < deadline) {
    TemplateFile& file = files[fingerprinted_++];
    file.fingerprint = FingerprintOf(file.path, file.size, &file.kind);
  }
}

void Service::FinishRecording(uint32_t flags) {
  if (recorder_ == nullptr || recorder_->weight_bytes() == 0) {
    reason_ = "nothing recorded: no model data was read through the mount";
    return;
  }
  if (recorder_->bytes() == stored_bytes_) return;
  FillFingerprints(kCheckBudgetNs);
  if (spec_.is_resumed || !recorder_->HasBeginnings()) {
    reason_ = "recording began in the middle of a load; the next start records again";
    Log(PPC_LOG_WARNING, "maio: service " + spec_.service_id + ": " + reason_);
    return;
  }
  if (context_->caps & PPC_CAN_TRACE) flags |= kTraced;
  const bool has_holes = (context_->caps & PPC_IS_SAMPLED) != 0;
  if (has_holes || cached_bytes_ * kWarmShare > recorder_->bytes()) flags |= kWarmSuspect;
  if (!Supersedes(flags)) {
    reason_ = "the recording was cut short; the template that was there stays";
    return;
  }
  Template t = recorder_->Finish(spec_.service_id, flags, start_ns_);
  t.generation = generation_ + 1;
  nlohmann::json meta = {{"params", spec_.params},
                         {"workers", spec_.workers},
                         {"load_ms", (last_event_ns_ - start_ns_) / 1'000'000},
                         {"recorder", "maio 1"}};
  t.meta = meta.dump(-1, ' ', true, nlohmann::json::error_handler_t::replace);
  std::string error;
  int rc = Store(context_->template_dir, t, &error);
  if (rc != 0) {
    reason_ = error;
    Log(PPC_LOG_ERROR, "maio: " + error);
    return;
  }
  stored_bytes_ = recorder_->bytes();
  reason_ = "template stored";
  Log(PPC_LOG_INFO, "maio: stored the template of service " + spec_.service_id + ": " +
                        std::to_string(stored_bytes_) + " bytes in " +
                        std::to_string(t.groups.size()) + " groups");
}

}  // namespace ppc::maio
