// SPDX-License-Identifier: Apache-2.0
//
// A start that is recorded: events to the recorder.
#include "policies/maio/record/recording.h"

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>

#include "policies/maio/base/tuning.h"

namespace ppc::maio {

int32_t Recording::LearnFile(const miss_io& event) {
  if (int32_t known = recorder_.FileOf(event.file); known >= 0) return known;
  if (event.path == nullptr || !ValidPath(event.path)) return -1;
  ppc_file_info info = {};
  if (run_->context->file_info(run_->context, event.path, &info) != 0) return -1;
  TemplateFile file;
  file.path = event.path;
  file.size = info.size;
  file.mtime_ns = info.mtime_ns;
  file.kind = KindOfPath(file.path, file.size);
  const auto told = start_context_.kinds.find(event.file);
  const bool is_unnamed = file.kind == FileKind::kOther && told == start_context_.kinds.end();
  if (told != start_context_.kinds.end()) file.kind = told->second;
  if (is_unnamed && file.size <= kSmallBytes) file.kind = FileKind::kSmall;
  const int32_t index = recorder_.AddFile(event.file, file);
  if (index < 0) return index;
  if (is_unnamed && file.kind == FileKind::kSmall) unnamed_bytes_ += file.size;
  if (file.kind != FileKind::kSmall) {
    model_bytes_ += file.size;
    model_files_.emplace_back(event.file, file.size);
  }
  NoteCached(event, file);
  return index;
}

// Without TRACE only misses are seen, and the observer does not see what is mapped by huge pages:
// what a file had in the cache before its first event will not be in the template.  The first
// miss's own windows do not count.
void Recording::NoteCached(const miss_io& event, const TemplateFile& file) {
  const uint32_t caps = run_->context->caps;
  const bool may_miss = (caps & PPC_CAN_TRACE) == 0 ||
                        ((caps & PPC_MISSES_HUGE) != 0 && file.kind != FileKind::kSmall);
  // What is loaded ahead is there, too.
  const bool is_loaded = start_context_.is_followed && (caps & PPC_CAN_TRACE) != 0;
  if (!may_miss || is_loaded || run_->context->resident == nullptr) return;
  ppc_residency state = {};
  if (run_->context->resident(run_->context, event.file, 0, file.size, &state, nullptr, 0) != 0)
    return;
  uint64_t own = event.size + 2 * std::max<uint64_t>(run_->context->window_bytes, kPage);
  cached_bytes_ += state.resident - std::min(state.resident, own);
}

// Pages at the beginning of a model file whose first event comes further on: the process began
// before its service and has read its table unseen.  All up to the event where that is cached: it
// has read on from there.  Else what is cached of the table, which ends long before kMostTable.
// Further than kMostUnseen no process reads so early, and a sparse file may be of any size.
uint64_t Recording::UnseenPages(const miss_io& event, const TemplateFile& file) const {
  constexpr uint64_t kMostTable = 4 << 20;
  constexpr uint64_t kMostUnseen = 1 << 30;
  const uint64_t before = event.offset / kPage * kPage;
  if (!HasContents(file.kind) || before == 0 || run_->context->resident == nullptr) return 0;
  ppc_residency state = {};
  const auto look = [&](uint64_t bytes, std::span<uint8_t> cached) {
    return run_->context->resident(run_->context, event.file, 0, bytes, &state, cached.data(),
                                   cached.size()) == 0;
  };
  if (before <= kMostUnseen && look(before, {}) && state.resident >= before) return before / kPage;
  std::array<uint8_t, kMostTable / kPage / 8> cached = {};
  const uint64_t most = std::min(before, kMostTable) / kPage;
  if (!look(most * kPage, std::span(cached).first((most + 7) / 8))) return 0;
  uint64_t pages = 0;
  while (pages < most && (cached[pages / 8] >> (pages % 8) & 1) != 0) ++pages;
  return pages;
}

bool Recording::MissesCached() const {
  const uint32_t caps = run_->context->caps;
  if ((caps & PPC_CAN_TRACE) == 0) return cached_bytes_ * kWarmShare > recorder_.bytes();
  const bool is_cached = start_context_.is_followed ? start_context_.is_warm
                                                    : cached_bytes_ * kUnseenShare > model_bytes_;
  return (caps & PPC_MISSES_HUGE) != 0 && is_mapped_ && is_cached;
}

void Recording::Event(const miss_io& event) {
  has_holes_ |= (event.flags & PPC_F_LOST) != 0;
  // With TRACE every access comes as ACCESS too; misses alone are the paper's way.  The first come
  // before TRACE is on where a miss began the service.
  const uint32_t caps = run_->context->caps;
  const bool is_miss = event.kind == PPC_MISS_READ || event.kind == PPC_MISS_FAULT;
  // Of a huge page nothing comes but its miss.
  const bool is_huge = (caps & PPC_MISSES_HUGE) != 0 && event.size >= kHugeBytes;
  is_traced_ |= event.kind == PPC_ACCESS;
  const bool touch = event.kind == PPC_ACCESS ||
                     (is_miss && ((caps & PPC_CAN_TRACE) == 0 || is_huge || !is_traced_));
  if (!touch || event.size == 0) return;
  const size_t known = files();
  int32_t file = LearnFile(event);
  if (file < 0) return;
  const uint64_t unseen = files() > known ? UnseenPages(event, recorder_.files()[file]) : 0;
  bool weights = recorder_.files()[file].kind != FileKind::kSmall;
  is_mapped_ |= weights && (event.flags & PPC_F_MMAP) != 0;
  const uint32_t group = run_->workers.Resolve(event, weights);
  uint64_t first = event.offset / kPage;
  uint64_t end = (event.offset + event.size + kPage - 1) / kPage;
  // A fault maps what of the cache lies around it, which is not told; to have as much there the
  // kernel reads around a miss.
  if (!weights && (event.flags & PPC_F_MMAP) != 0) {
    first = first / kAroundPages * kAroundPages;
    end = (end + kAroundPages - 1) / kAroundPages * kAroundPages;
  }
  // Whoever reads it: the order in which small files are needed is one of all processes.
  const uint32_t as = weights ? run_->workers.RecordingGroup(event, group) : kCommonGroup;
  if (weights && first < end) NoteOwn((end - first) * kPage);
  // A service that has populated its mapping computes from it, and loads nothing another time.
  if ((event.flags & PPC_F_NOT_USER) != 0) populated_bytes_ += event.size;
  const bool may_repeat = (event.flags & PPC_F_MMAP) == 0 || populated_bytes_ < kWeightsBeginBytes;
  const auto index = static_cast<uint32_t>(file);
  if (unseen > 0) reorder_buffer_.Put({event.time_ns, as, index, 0, unseen, may_repeat});
  reorder_buffer_.Put({event.time_ns, as, index, first, end, may_repeat});
  while (const std::optional<FileTouch> touched = reorder_buffer_.Next()) Record(*touched);
}

uint64_t Recording::news_ns(uint64_t now_ns) {
  reorder_buffer_.AdvanceTo(now_ns - std::min(now_ns, kLateNs));  // events may wait for us, too
  while (const std::optional<FileTouch> touched = reorder_buffer_.Next()) Record(*touched);
  return news_ns_;
}

// Asked once all that was read before is recorded: of passes that take less than events are late,
// each would look new.
void Recording::NoteNews(const FileTouch& touched) {
  if (recorder_.HasTouched(touched.group, touched.file, touched.first_page)) return;
  if (recorder_.files()[touched.file].kind != FileKind::kSmall) {
    if (first_news_ns_ == 0) first_news_ns_ = touched.ns;
    scattered_reads_.Note(touched.file, touched.first_page, touched.end_page);
    is_endless_ = scattered_reads_.IsScattered() && touched.ns > first_news_ns_ + kScatteredNs;
  }
  if (!is_endless_) news_ns_ = std::max(news_ns_, touched.ns);
}

bool Recording::IsNews(const miss_io& event) const {
  const int32_t file = recorder_.FileOf(event.file);
  if (file < 0) return true;
  const bool is_small = recorder_.files()[file].kind == FileKind::kSmall;
  return !is_small && !recorder_.HasTouched(static_cast<uint32_t>(file), event.offset / kPage);
}

// The cgroup's use minus resident pages of the model is the application's own memory.
void Recording::NoteOwn(uint64_t bytes) {
  if (start_context_.is_followed || begun_bytes_ >= kWeightsBeginBytes) return;
  begun_bytes_ += bytes;
  if (begun_bytes_ < kWeightsBeginBytes || run_->context->resident == nullptr) return;
  const ppc_memory memory = run_->Memory();
  const uint64_t used = memory.is_cgroup != 0 ? memory.used : run_->GroupUsed();
  uint64_t model = 0;
  for (const auto& [number, size] : model_files_) {
    ppc_residency state = {};
    if (run_->context->resident(run_->context, number, 0, size, &state, nullptr, 0) != 0) return;
    model += state.resident;
  }
  own_bytes_ = used - std::min(used, model);
}

void Recording::Settle() {
  while (const std::optional<FileTouch> touched = reorder_buffer_.Oldest()) Record(*touched);
}

void Recording::Record(const FileTouch& touched) {
  NoteNews(touched);
  recorder_.Touch(touched.group, touched.file, touched.first_page, touched.end_page, touched.ns,
                  touched.may_repeat);
}

bool Recording::HasSubstance() const {
  return weight_bytes() != 0 || files() >= kPackageFiles || unnamed_bytes_ >= kWeightsBeginBytes;
}

bool Recording::HasNews() const {
  const uint64_t bytes = recorder_.bytes();
  return HasSubstance() && bytes != stored_bytes_ && bytes != pending_bytes_;
}

bool Recording::IsDue(uint64_t now_ns) {
  const bool rests = run_->last_event_ns != 0 && now_ns > run_->last_event_ns + kIdleRecordNs;
  if (rests) Settle();
  return rests && HasNews() && recorder_.bytes() != tried_bytes_;
}

TemplateWriter Recording::Finish(uint32_t flags, uint64_t own_bytes) {
  tried_bytes_ = pending_bytes_ = recorder_.bytes();
  TemplateWriter out(recorder_);
  out.context_ = run_->context;
  out.spec_ = run_->spec;
  const uint64_t own = std::max(own_bytes, own_bytes_);
  const uint64_t last_ns = std::max(run_->last_event_ns, run_->start_ns);
  const nlohmann::json meta = {{"params", run_->spec.params},
                               {"workers", run_->spec.workers},
                               {"load_ms", (last_ns - run_->start_ns) / 1'000'000},
                               {"own_bytes", own >= kLeastOwnBytes ? own : 0},
                               {"recorder", "maio 1"}};
  out.meta_ = meta.dump(-1, ' ', true, nlohmann::json::error_handler_t::replace);
  if ((run_->context->caps & PPC_CAN_TRACE) != 0) flags |= kTraced;
  const bool has_holes = has_holes_ || (run_->context->caps & PPC_IS_SAMPLED) != 0;
  if (has_holes || MissesCached()) flags |= kWarmSuspect;
  out.flags_ = flags;
  out.found_ = found_;
  out.is_first_ = stored_bytes_ == 0;
  out.has_missed_ = start_context_.has_missed || run_->spec.is_resumed;
  return out;
}

void Recording::TakeFinished(const TemplateWriter& writer) {
  pending_bytes_ = 0;
  if (writer.stored_bytes() != 0) stored_bytes_ = writer.stored_bytes();
}

}  // namespace ppc::maio
