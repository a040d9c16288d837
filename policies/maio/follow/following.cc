// SPDX-License-Identifier: Apache-2.0
//
// A service that follows a template: events, plans, evictions.
#include "policies/maio/follow/following.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "policies/maio/base/tuning.h"
#include "policies/maio/follow/in_memory.h"

namespace ppc::maio {

Following::Following(ServiceRun* run, Tables tables)
    : run_(run),
      layout_(std::move(tables.layout)),
      small_(std::move(tables.small)),
      learnt_ns_(run->Now()),
      cache_use_(layout_->groups().size(), layout_->bytes(), tables.waits),
      own_memory_(tables.own_bytes),
      native_(run->context),
      recorded_own_(tables.own_bytes),
      seen_files_(layout_->files().size(), false) {
  const uint64_t cookie = run_->cookie();
  const uint64_t nonce = tables.nonce;
  affinity_ = std::make_unique<Affinity>(run_->context, *layout_, run_->config.affinity);
  ppc_memory memory = run_->Memory();
  uint64_t distance = BarDistance(run_->config, memory.threshold, layout_->groups().size());
  beacon_bytes_ = BeaconBytes(distance);
  constrained_ = !Fits(memory);
  table_ = std::make_unique<PieceTable>(layout_.get());
  matcher_ = std::make_unique<Matcher>(table_.get(), run_->context->window_bytes, beacon_bytes_);
  planner_ = std::make_unique<Planner>(table_.get(), matcher_.get(), affinity_.get(),
                                       run_->spec.number, cookie | kPlannerTag | nonce);
  if ((run_->context->caps & PPC_CAN_DEADLINES) != 0) planner_->TellDeadlines();
  evictor_ =
      std::make_unique<Evictor>(table_.get(), matcher_.get(), planner_.get(), distance, cookie);
  planner_->OnFileFailed([this](uint32_t file) {
    native_.Fail(layout_->files()[file].number);
    run_->Log(PPC_LOG_WARNING, "maio: service " + run_->spec.service_id + ": " +
                                   layout_->files()[file].path +
                                   ": cannot be read; it is left to its readers");
  });
  votes_ = std::make_unique<WorkerVotes>(layout_.get());
  BindGroups();
  // An earlier run may have left some to the kernel.
  for (const LayoutFile& file : layout_->files()) {
    if (file.number != 0) run_->context->file_native(run_->context, file.number, 0);
  }
  planner_->SetBurnt(constrained_);
  for (uint32_t g = 0; g < layout_->groups().size(); g++)
    matcher_->cursors()[g].waits = cache_use_.Waits(g);
  for (const uint32_t piece : tables.cached) planner_->Found(piece);
}

// Whether the kernel could keep all of it beside what the service takes for itself.  What is in the
// cache already, of this model perhaps, takes nothing away from it; what is in flight is of it.
bool Following::Fits(const ppc_memory& memory) const {
  const uint64_t own = memory.used - std::min(memory.used, memory.cache);
  const uint64_t taken = std::max(own, recorded_own_);
  return template_bytes() + taken <= memory.limit;
}

void Following::BindGroups() {
  for (uint32_t g = 0; g < layout_->groups().size(); g++) {
    affinity_->Bind(g, run_->workers.XpuOf(layout_->groups()[g].id));
  }
}

bool Following::Holds(uint64_t number, uint64_t page, uint64_t pages) const {
  int32_t file = layout_->FileOf(number);
  if (file < 0) return small_->Knows(number);
  auto [first, last] = layout_->PiecesOf(static_cast<uint32_t>(file), page, page + pages);
  for (uint32_t p = first; p < last; p++) {
    if (layout_->pieces()[p].pending != 0) return true;
  }
  return false;
}

// Marks what the front end loads by itself, and finds out what we dropped too early.  A miss of a
// page makes the kernel read its window.  A miss where all was there means that another process has
// dropped the page cache, or reclaim has: what else is gone in front of the reader is loaded again.
void Following::NoteMiss(const miss_io& event, uint32_t file) {
  uint64_t window = std::max<uint64_t>(run_->context->window_bytes, kPage);
  uint64_t start = event.offset / window * window;
  uint64_t end = (event.offset + event.size + window - 1) / window * window;
  auto [first, last] = layout_->PiecesOf(file, start / kPage, end / kPage);
  const auto [missed, missed_end] = layout_->PiecesOf(
      file, event.offset / kPage, (event.offset + event.size + kPage - 1) / kPage);
  const bool was_there =
      missed != missed_end && layout_->pieces()[missed].state == PieceState::kResident;
  if (was_there && event.time_ns >= looked_ns_ + kLookNs) {
    looked_ns_ = event.time_ns;
    for (const uint32_t p : FindVanished(run_->context, *layout_, missed)) table_->Lose(p);
  }
  for (uint32_t p = first; p < last; p++) {
    const Piece& piece = layout_->pieces()[p];
    const uint64_t piece_end = piece.end_page() * kPage;
    if ((piece.flags & kReleased) && event.time_ns / 1000 > piece.release_us) {
      const bool hit = piece.offset() < event.offset + event.size && piece_end > event.offset;
      const uint64_t bytes = std::min(piece_end, end) - std::max(piece.offset(), start);
      evictor_->Refault(p, hit ? bytes : 0, event.time_ns);
    }
    table_->Miss(p);
  }
}

// A populate maps these pages, and no later access of its process is told: they count as read.
void Following::See(const Observation& o) {
  const auto [first, last] = layout_->PiecesOf(o.file, o.first_page, o.end_page);
  for (uint32_t p = first; p < last; p++) table_->See(p, kMissed);
}

// False: it is none of the template's.
bool Following::SmallFile(const miss_io& event) {
  if (!small_->Knows(event.file)) return false;
  (void)run_->workers.Resolve(event, false);
  const bool is_miss = event.kind == PPC_MISS_READ || event.kind == PPC_MISS_FAULT;
  small_->Touch(event.file, event.offset, event.size, is_miss);
  return true;
}

// Much of it and nothing of the template: the service loads another model than it said.
void Following::UnlistedFile(const miss_io& event) {
  if (event.kind != PPC_MISS_READ && event.kind != PPC_MISS_FAULT) return;
  if (small_->IsLearning() && SmallFiles::MayBe(event)) return;
  native_.NoteUnlisted(event);
  uint64_t consumed = 0;
  for (const Cursor& cursor : matcher_->cursors()) consumed += cursor.consumed;
  if (consumed * 20 < layout_->bytes() && native_.unlisted_bytes() * 8 > template_bytes())
    matcher_->LoseAll();
}

// A group that lost the template reads natively until it is found again.
void Following::FollowSync(const miss_io& event, uint32_t slot) {
  SyncState state = matcher_->cursors()[slot].state;
  if (state == SyncState::kLost) {
    native_.Leave(event.file);
  } else if (state == SyncState::kSync) {
    native_.Take(event.file);
  }
}

// On a node of several the layout has no slices of the others' workers, into which the kernel reads
// ahead of this one's, and maps around them: that says nothing of who reads what.
bool Following::IsReadAhead(const miss_io& event, uint32_t file) const {
  if (run_->spec.nodes == 1) return false;
  if (event.kind != PPC_MISS_READ && event.kind != PPC_MISS_FAULT && event.kind != PPC_PROGRESS)
    return false;
  const uint64_t page = event.offset / kPage;
  const auto [first, last] =
      layout_->PiecesOf(file, page, (event.offset + event.size + kPage - 1) / kPage);
  if (first != last) return false;
  const auto [before, end] = layout_->PiecesOf(file, page - std::min(page, kReadAheadPages), page);
  return before != end;
}

// Nobody else's data: the guess of who the process is was right.
bool Following::IsOwn(const Observation& o) const {
  auto [first, last] = layout_->PiecesOf(o.file, o.first_page, o.end_page);
  return first != last &&
         layout_->ReadersOf(first, last, o.first_page, o.end_page) == GroupSet::Of(o.group);
}

// By what it reads the process may be another worker.
void Following::Vote(const miss_io& event, uint32_t from, uint32_t file) {
  const std::optional<uint32_t> to = votes_->Take(event, file);
  if (!to) return;
  // One process that reads for several workers is each of them in turn.
  run_->Log(PPC_LOG_DEBUG, "maio: service " + run_->spec.service_id + ": process " +
                               std::to_string(event.pid) + " reads as worker " +
                               std::to_string(static_cast<int32_t>(*to)));
  if (from == kCommonGroup || layout_->SlotOf(from) < 0) {
    run_->workers.Move(event, *to);
  } else {
    run_->workers.Swap(from, *to);
    if (on_swap_ && !run_->workers.has_xpu_binding()) on_swap_(from, *to);
  }
  BindGroups();
  for (uint32_t g = 0; g < layout_->groups().size(); g++) planner_->Reset(g);
}

// A reader is elsewhere, or begins again.
void Following::Jumped(uint32_t g) {
  jumps_after_all_ += HasReadAll() ? 1 : 0;
  planner_->Reset(g);
  run_->context->interrupt_of(run_->context, run_->spec.number, g);
  planner_->Interrupted(g);
}

void Following::ReadThrough(int32_t slot, uint64_t bytes) {
  cache_use_.Read(slot, bytes, [this](uint32_t g) {
    matcher_->cursors()[g].waits = false;
    planner_->Reset(g);
  });
}

void Following::ReadPast(const miss_io& event, int32_t file) {
  if (file < 0 || layout_->files()[file].kind == FileKind::kSmall) return;
  cache_use_.Pass(layout_->SlotOf(run_->workers.Resolve(event, true)), [this](uint32_t g) {
    matcher_->cursors()[g].waits = true;
    run_->context->interrupt_of(run_->context, run_->spec.number, g);
    planner_->Interrupted(g);
  });
}

void Following::Event(const miss_io& event) {
  int32_t file = layout_->FileOf(event.file);
  has_holes_ |= (event.flags & PPC_F_LOST) != 0;
  if ((event.flags & PPC_F_DIRECT) != 0) return ReadPast(event, file);
  if (file < 0) {
    has_opens_ |= event.kind == PPC_OPEN;
    if (!SmallFile(event)) UnlistedFile(event);
    return;
  }
  seen_files_[static_cast<size_t>(file)] = true;
  bool weights = layout_->files()[file].kind != FileKind::kSmall;
  uint32_t group = run_->workers.Resolve(event, weights);
  int32_t slot = layout_->SlotOf(group);
  if (event.kind == PPC_OPEN) {
    has_opens_ = true;
    return;
  }
  if (IsReadAhead(event, static_cast<uint32_t>(file))) return;
  if (event.kind == PPC_CLOSE) {
    if (slot >= 0) {
      matcher_->Close(static_cast<uint32_t>(slot), static_cast<uint32_t>(file), event.open_id);
    }
    return;
  }
  if (first_event_ns_ == 0) first_event_ns_ = event.time_ns;
  if (weights) ReadThrough(slot, event.size);
  bool miss = event.kind == PPC_MISS_READ || event.kind == PPC_MISS_FAULT;
  // A new process that goes on where the one before was is no restart.
  bool restarted =
      slot >= 0 && weights && run_->workers.has_replacement() &&
      run_->workers.ReplacedPrevious(event) &&
      matcher_->HasRead(static_cast<uint32_t>(slot), static_cast<uint32_t>(file),
                        event.offset / kPage, (event.offset + event.size + kPage - 1) / kPage);
  if (restarted) matcher_->Restart(static_cast<uint32_t>(slot));
  if (miss) NoteMiss(event, static_cast<uint32_t>(file));
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
  if (!user) See(o);
  MatchResult match = matcher_->Observe(o);
  if (!native_.empty() || matcher_->cursors()[g].state == SyncState::kLost) FollowSync(event, g);
  if (weights && o.user) {
    if (match.foreign >= 0) {
      Vote(event, group, static_cast<uint32_t>(file));
    } else if (!votes_->empty() && IsOwn(o)) {
      votes_->Forget(event);
    }
  }
  if (match.moved || restarted) Jumped(g);
  if (event.time_ns >= traced_ns_ + kTraceNs) Trace(event.time_ns);
}

void Following::Plan(const ppc_plan_request& request, IoList* out) {
  if (!run_->config.prefetch || ComputesHereAndThere()) return;
  ppc_memory memory = request.memory != nullptr ? *request.memory : run_->Memory();
  size_t before = out->size();
  device_ = {request.device_rate, request.device_step_ns};
  const ReadingWorkers reads = FindReadingWorkers(*layout_, matcher_->cursors());
  const bool has_begun = reads != ReadingWorkers::kNone;
  // A start still takes memory for itself, which would be made of what was loaded for it.
  memory.room -= std::min(memory.room, OwnToCome(memory, reads));
  const uint64_t small =
      small_->PlanBeside(request.max_bytes, has_begun, learnt_ns_, run_->Now(), out);
  const uint64_t left = request.max_bytes - std::min(request.max_bytes, small);
  memory.room -= std::min(memory.room, small);
  if (left > 0) planner_->Plan(left, memory, run_->Now(), out);
  // Of the model there is nothing to do.
  if (out->empty()) (void)small_->Plan(left, run_->Now(), out);
  for (size_t i = before; i < out->size(); i++) {
    const ppc_io& io = out->ios()[i];
    node_bytes_[io.xpu < 0 ? -1 : affinity_->NodeOfXpu(io.xpu)] += io.size;
  }
}

void Following::Evict(const Evictor::Held& held, IoList* out) {
  if (!run_->config.bar) return;
  const ppc_memory memory = run_->Memory();
  // The threshold leaves room for what is in flight; it is no reason to drop what the kernel keeps.
  if (!is_contended_ && Fits(memory)) return;
  // Room that no load needs is the kernel's to make: it may be short of what the service takes for
  // itself, and its readers may compute from what they have mapped.
  if (!is_contended_ && !planner_->HasMore()) return;
  evictor_->Evict(memory, run_->Now(), (run_->context->caps & PPC_CAN_UNMAP) != 0, held, out);
}

bool Following::EvictAll(const Evictor::Held& held, bool may_unmap, IoList* out) {
  const bool can_unmap = may_unmap && (run_->context->caps & PPC_CAN_UNMAP) != 0;
  evictor_->EvictAll(run_->Now(), can_unmap, held, out);
  const bool has_more = small_->Release(can_unmap, held, out);
  return has_more || !evictor_->HasEnded(run_->Now());
}

void Following::Done(const ppc_result& result) {
  if (small_->Owns(result.cookie)) {
    small_->Done(result);
  } else if (result.kind == PPC_LOADED) {
    planner_->Done(result, run_->Now());
  } else {
    evictor_->Done(result, run_->Now());
  }
}

// A worker that has been silent for a minute while the others moved on is gone.
void Following::DropSilent(uint64_t now_ns) {
  auto& cursors = matcher_->cursors();
  uint64_t most = 0;
  for (const Cursor& cursor : cursors) most = std::max(most, cursor.consumed);
  uint64_t limit = std::min<uint64_t>(kSilentBytes, layout_->bytes() / kSilentShare);
  for (uint32_t g = 0; g < cursors.size(); g++) {
    uint64_t seen = cursors[g].last_ns != 0 ? cursors[g].last_ns : first_event_ns_;
    bool silent = seen != 0 && now_ns > seen + kSilentNs;
    if (silent && !cursors[g].dropped && most > cursors[g].consumed + limit) matcher_->Drop(g);
  }
}

void Following::Tick(uint64_t now_ns) {
  planner_->Expire(now_ns);
  DropSilent(now_ns);
  if (now_ns >= traced_ns_ + kTraceNs) Trace(now_ns);
}

void Following::Trace(uint64_t now_ns) {
  traced_ns_ = now_ns;
  if ((run_->context->caps & PPC_IS_TRACED) == 0) return;
  maio::Trace(Parts(), now_ns);
}

}  // namespace ppc::maio
