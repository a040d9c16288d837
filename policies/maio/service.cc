// SPDX-License-Identifier: Apache-2.0
//
// A service's life: start, events, plans, evictions, ready, stop.
#include "policies/maio/service.h"

#include <malloc.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>

#include "policies/maio/record/regroup.h"
#include "policies/maio/template/template_compare.h"

namespace ppc::maio {
namespace {

using Json = nlohmann::json;

constexpr uint64_t kTraceNs = 100'000'000;
constexpr uint64_t kIdleRecordNs = 30'000'000'000;
constexpr uint64_t kSilentNs = 60'000'000'000;
constexpr uint64_t kTickFingerprintNs = 30'000'000;
constexpr uint32_t kTicksPerStats = 5;  // counters for people
constexpr uint32_t kTicksPerTrim = 25;
// Released since progress was saved: a runner that dies makes its successor read so much again.
constexpr uint64_t kReleasedPerSave = 64ull << 20;

unsigned long long ToPrint(uint64_t value) { return value; }

}  // namespace

const char* ModeName(Mode mode) {
  switch (mode) {
    case Mode::kRecord:
      return "record";
    case Mode::kUse:
      return "use";
    default:
      return "idle";
  }
}

Service::Service(const ppc_context* context, const Config& config, ServiceSpec spec, uint32_t slot)
    : context_(context),
      config_(config),
      spec_(std::move(spec)),
      slot_(slot),
      start_ns_(context->now_ns(context)),
      workers_(spec_, context->nr_xpus) {}

void Service::Log(int level, const std::string& message) const {
  context_->log(context_, level, message.c_str());
}

ppc_memory Service::Memory() const {
  ppc_memory memory = {};
  if (context_->memory(context_, spec_.number, &memory) != 0) memory = {};
  return memory;
}

int32_t Service::SlotOf(uint32_t group) const { return layout_->SlotOf(group); }

void Service::BindGroups() {
  for (uint32_t g = 0; g < layout_->groups().size(); g++) {
    affinity_->Bind(g, workers_.XpuOf(layout_->groups()[g].id));
  }
}

Json Service::Start() {
  Template t;
  std::string error;
  std::string path = TemplatePath(context_->template_dir, spec_.service_id);
  int rc = Load(path, &t, &error);
  if (rc == 0) generation_ = t.generation;
  if (rc != 0 && rc != -ENOENT) {
    Log(PPC_LOG_WARNING, "maio: " + error);
    reason_ = error;
  } else if (rc != 0) {
    reason_ = "no template yet";
  } else if (config_.record == RecordMode::kAlways) {
    reason_ = "recording was asked for";
  } else {
    reason_ = "template found";
  }
  if (rc == 0) found_ = {t.flags, DistinctBytes(t)};
  if (rc == 0) copies_ = Regroup(&t, spec_.workers, TensorParallel());
  if (copies_ != 0) reason_ += ", for another number of workers";
  bool provisional = rc == 0 && (t.flags & kProvisional) != 0;
  bool wanted = config_.record != RecordMode::kAlways;
  // What did not fit the table when it was recorded would not fit it next time.
  if (wanted && rc == 0 && !provisional && (t.flags & kOverflow) != 0) CompleteFromHeaders(&t);
  bool used = wanted && rc == 0 && !provisional && StartUsing(&t);
  if (!used && wanted && config_.prefetch) FollowProvisionally(provisional ? &t : nullptr);
  if (!used && config_.record != RecordMode::kNever) StartRecording();
  t = Template();
  malloc_trim(0);  // the template, the headers and what sorted them were most of what there is
  Log(PPC_LOG_INFO,
      "maio: service " + spec_.service_id + ": " + ModeName(mode_) + " (" + reason_ + ")");
  return Status();
}

// What is followed while the start is recorded, so that it is not slow: the doubtful template
// that there is, the model's headers, or both.
void Service::FollowProvisionally(Template* known) {
  std::string reason = reason_;
  bool synthetic = known != nullptr && (known->flags & kSynthetic) != 0;
  bool complete = known != nullptr && (known->flags & (kPartial | kWarmSuspect | kOverflow)) == 0;
  std::optional<Template> headers;
  if (!complete) headers = SynthesizeModel();
  // Of a sampled recording order and workers are guesses, too: the headers know better.
  if (headers && (context_->caps & PPC_IS_SAMPLED) != 0) known = nullptr;
  if (known != nullptr) {
    if (headers && !synthetic) CompleteWith(known, *headers);
    bool good = Check(*known).empty() && StartUsing(known);
    if (good && !synthetic) reason_ = reason + ", of a recording to be repeated";
    if (good) return;
    if (!headers) headers = SynthesizeModel();
  }
  if (headers && StartUsing(&*headers)) reason_ = reason + "; follows the model's headers";
}

void Service::CompleteFromHeaders(Template* t) {
  reason_ += "; the table of extents was full when it was recorded";
  std::optional<Template> headers = SynthesizeModel();
  if (!headers) return;
  Template whole = *t;
  CompleteWith(&whole, *headers);
  if (!Check(whole).empty()) return;
  reason_ += ", completed from the model's headers";
  *t = std::move(whole);
}

uint32_t Service::want() const {
  switch (mode_) {
    case Mode::kRecord:
      return PPC_WANT_TRACE | PPC_WANT_MANAGED_RA | PPC_WANT_OPENCLOSE;
    case Mode::kUse:
      return PPC_WANT_PROGRESS | PPC_WANT_MANAGED_RA | PPC_WANT_OPENCLOSE |
             (leftovers_ != nullptr ? PPC_WANT_EVICT : 0);
    default:
      return evict_all_ ? PPC_WANT_EVICT : 0;
  }
}

bool Service::Knows(uint64_t file) const {
  if (recorder_ != nullptr && recorder_->FileOf(file) >= 0) return true;
  return layout_ != nullptr && layout_->FileOf(file) >= 0;
}

bool Service::Holds(uint64_t number, uint64_t page, uint64_t pages) const {
  if (mode_ == Mode::kRecord && !follows()) return recorder_->FileOf(number) >= 0;
  if (!follows()) return false;
  int32_t file = layout_->FileOf(number);
  if (file < 0) return false;
  auto [first, last] = layout_->PiecesOf(static_cast<uint32_t>(file), page, page + pages);
  for (uint32_t p = first; p < last; p++) {
    if (layout_->pieces()[p].pending != 0) return true;
  }
  return false;
}

void Service::Event(const miss_io& event) {
  last_event_ns_ = event.time_ns;
  if (mode_ == Mode::kRecord) RecordEvent(event);
  if (follows()) UseEvent(event);
}

// Marks what the front end loads by itself, and finds out what we dropped too early.  A miss of a
// page makes the kernel read its window.
void Service::NoteMiss(const miss_io& event, uint32_t file, int32_t slot) {
  uint64_t window = std::max<uint64_t>(context_->window_bytes, kPage);
  uint64_t start = event.offset / window * window;
  uint64_t end = (event.offset + event.size + window - 1) / window * window;
  auto [first, last] = layout_->PiecesOf(file, start / kPage, end / kPage);
  for (uint32_t p = first; p < last; p++) {
    const Piece& piece = layout_->pieces()[p];
    const uint64_t piece_end = piece.end_page() * kPage;
    if ((piece.flags & kReleased) && event.time_ns / 1000 > piece.release_us) {
      const bool hit = piece.offset() < event.offset + event.size && piece_end > event.offset;
      const uint64_t bytes = std::min(piece_end, end) - std::max(piece.offset(), start);
      evictor_->Refault(p, slot, hit ? bytes : 0, event.time_ns);
    }
    table_->Touch(p);
  }
}

// Not in the template: the kernel's read-ahead serves it better than nothing.  Much of it and
// nothing of the template: the service loads another model than it said.
void Service::UnlistedFile(const miss_io& event) {
  if (event.kind != PPC_MISS_READ && event.kind != PPC_MISS_FAULT) return;
  if (native_files_.emplace(event.file, true).second) {
    context_->file_native(context_, event.file, 1);
    unlisted_bytes_ += event.file_bytes;
  }
  uint64_t consumed = 0;
  for (const Cursor& cursor : matcher_->cursors()) consumed += cursor.consumed;
  if (consumed * 20 < layout_->bytes() && unlisted_bytes_ * 8 > layout_->bytes())
    matcher_->GiveUp();
}

// A group that lost the template reads natively until it is found again.
void Service::FollowSync(const miss_io& event, uint32_t slot) {
  SyncState state = matcher_->cursors()[slot].state;
  if (state == SyncState::kLost) {
    if (native_files_.emplace(event.file, true).second) {
      context_->file_native(context_, event.file, 1);
    }
  } else if (state == SyncState::kSync && !native_files_.empty()) {
    if (native_files_.erase(event.file) != 0) context_->file_native(context_, event.file, 0);
  }
}

void Service::UseEvent(const miss_io& event) {
  int32_t file = layout_->FileOf(event.file);
  if (file < 0) {
    UnlistedFile(event);
    return;
  }
  bool weights = layout_->files()[file].kind != FileKind::kSmall;
  uint32_t group = workers_.Resolve(event, weights);
  int32_t slot = SlotOf(group);
  if (event.kind == PPC_OPEN) return;
  if (event.kind == PPC_CLOSE) {
    if (slot >= 0) {
      matcher_->Close(static_cast<uint32_t>(slot), static_cast<uint32_t>(file), event.open_id);
    }
    return;
  }
  if (first_event_ns_ == 0) first_event_ns_ = event.time_ns;
  bool miss = event.kind == PPC_MISS_READ || event.kind == PPC_MISS_FAULT;
  // A new process that goes on where the one before was is no restart.
  bool restarted =
      slot >= 0 && weights && workers_.TookOver(event) &&
      matcher_->HasRead(static_cast<uint32_t>(slot), static_cast<uint32_t>(file),
                        event.offset / kPage, (event.offset + event.size + kPage - 1) / kPage);
  if (restarted) matcher_->Restart(static_cast<uint32_t>(slot));
  if (miss) NoteMiss(event, static_cast<uint32_t>(file), slot);
  // Small files say nothing of who reads them: any process may.
  const bool user = (event.flags & PPC_F_NOT_USER) == 0;
  if (slot < 0) {
    if (weights && user) Vote(event, group, static_cast<uint32_t>(file));
    return;
  }
  uint32_t g = static_cast<uint32_t>(slot);
  Observation o;
  o.group = g;
  o.file = static_cast<uint32_t>(file);
  o.first_page = event.offset / kPage;
  o.end_page = (event.offset + event.size + kPage - 1) / kPage;
  o.open_id = event.open_id;
  o.miss = miss;
  o.user = user;
  o.idle_loader = planner_->queued_bytes(g) == 0;
  o.now_ns = event.time_ns;
  MatchResult match = matcher_->Observe(o);
  FollowSync(event, g);
  if (weights && o.user) {
    if (match.foreign >= 0) {
      Vote(event, group, static_cast<uint32_t>(file));
    } else if (!votes_.empty() && IsOwn(o)) {
      votes_.erase({event.pid, event.start_ns});
    }
  }
  if (match.moved || restarted) {
    evictor_->AllowSwap(Memory().threshold / 2, Now());
    planner_->Reset(g);
    context_->interrupt_of(context_, spec_.number, g);
    planner_->Interrupted(g);
  }
  if (event.time_ns >= traced_ns_ + kTraceNs) Trace(event.time_ns);
}

void Service::Plan(const ppc_plan_request& request, IoList* out) {
  if (!follows() || !config_.prefetch) return;
  ppc_memory memory = request.memory != nullptr ? *request.memory : Memory();
  size_t before = out->size();
  stand_down_->Update(request.device_rate, request.device_step_ns, matcher_->cursors(), Now());
  planner_->SetWindow(stand_down_->window());
  planner_->Plan(request.max_bytes, memory, Now(), out);
  for (size_t i = before; i < out->size(); i++) {
    const ppc_io& io = out->ios()[i];
    node_bytes_[io.xpu < 0 ? -1 : affinity_->NodeOfXpu(io.xpu)] += io.size;
  }
}

void Service::Evict(const Evictor::Held& held, IoList* out) {
  if (layout_ == nullptr) return;
  if (evict_all_) {
    evictor_->EvictAll(Now(), (context_->caps & PPC_CAN_UNMAP) != 0, held, out);
    evict_all_ = !evictor_->HasEnded(Now());
    return;
  }
  if (!follows()) return;
  if (leftovers_ != nullptr) leftovers_->Evict(Now(), held, out);
  if (!config_.bar) return;
  const ppc_memory memory = Memory();
  const bool is_short = memory.used > memory.threshold || memory.room < kChunkBytes;
  // With PPC_WANT_EVICT asked while there is room, too.
  if (config_.affinity_fix == AffinityFix::kEvict && !is_short) return;
  evictor_->Evict(memory, Now(), (context_->caps & PPC_CAN_UNMAP) != 0, held, out);
  if (evictor_->stats().released >= saved_released_ + kReleasedPerSave) SaveProgress();
}

bool Service::Done(const ppc_result& result) {
  if (layout_ == nullptr || result.cookie >> 56 != slot_ + 1) return false;
  if (result.kind == PPC_LOADED) {
    planner_->Done(result);
    if (leftovers_ != nullptr) leftovers_->Found(result);
  } else if ((follows() || evict_all_) && (leftovers_ == nullptr || !leftovers_->Done(result))) {
    evictor_->Done(result, Now());
  }
  return true;
}

// A worker that has been silent for a minute while the others moved on is gone.
void Service::DropSilent(uint64_t now_ns) {
  auto& cursors = matcher_->cursors();
  uint64_t most = 0;
  for (const Cursor& cursor : cursors) most = std::max(most, cursor.consumed);
  uint64_t limit = std::min<uint64_t>(4ull << 30, layout_->bytes() / 4);
  for (uint32_t g = 0; g < cursors.size(); g++) {
    uint64_t seen = cursors[g].last_ns != 0 ? cursors[g].last_ns : first_event_ns_;
    bool silent = seen != 0 && now_ns > seen + kSilentNs;
    if (silent && !cursors[g].dropped && most > cursors[g].consumed + limit)
      evictor_->Add(matcher_->Drop(g));
  }
}

void Service::Tick(uint64_t now_ns) {
  if (mode_ == Mode::kRecord) {
    FillFingerprints(kTickFingerprintNs);
    bool idle = last_event_ns_ != 0 && now_ns > last_event_ns_ + kIdleRecordNs;
    // One that cannot be stored is not tried again before there is more of it.
    if (idle && recorder_->weight_bytes() > 0 && recorder_->bytes() != tried_bytes_) {
      tried_bytes_ = recorder_->bytes();
      FinishRecording(kComplete);
    }
  }
  if (follows()) {
    planner_->Expire(now_ns);
    if (leftovers_ != nullptr) leftovers_->Expire(now_ns);
    DropSilent(now_ns);
    SaveProgress();
    if (now_ns >= traced_ns_ + kTraceNs) Trace(now_ns);
  }
  if (++ticks_ % kTicksPerStats == 0) Stats();
  // Headers and plans leave holes between the tables, which stay.
  if (ticks_ % kTicksPerTrim == 0) malloc_trim(0);
}

void Service::Trace(uint64_t now_ns) {
  traced_ns_ = now_ns;
  if (context_->trace == nullptr) return;
  for (uint32_t g = 0; g < layout_->groups().size(); g++) {
    const LayoutGroup& group = layout_->groups()[g];
    const Cursor& cursor = matcher_->cursors()[g];
    // Not through a JSON object: that would cost more than all events in between.  A service ID
    // has no character that needs quoting.
    char line[512];
    std::snprintf(line, sizeof(line),
                  R"({"evict":%llu,"front":%llu,"group":%d,"prefetch":%llu,"service":"%s",)"
                  R"("state":"%s","t":%llu,"total":%llu})",
                  ToPrint(evictor_->position(g)), ToPrint(cursor.pos),
                  static_cast<int32_t>(group.id),
                  ToPrint(std::max(planner_->horizon(g), cursor.pos)), spec_.service_id.c_str(),
                  SyncName(cursor.state), ToPrint(now_ns), ToPrint(group.bytes));
    context_->trace(context_, line);
  }
}

}  // namespace ppc::maio
