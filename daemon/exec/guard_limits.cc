// SPDX-License-Identifier: Apache-2.0
// Judges a service by the record, sets its limits, and tells `status` of it.
#include <algorithm>
#include <utility>

#include "daemon/backend/backend.h"
#include "daemon/exec/guard.h"

namespace ppc {

// --------------------------------------------------------------------- service

void Guard::Begin(Slot slot, const std::string& id, uint64_t now_ns) {
  End(slot);
  ServiceState& state = Of(slot);
  state.id = id;
  state.vanishes = expects_vanishing_;
  if (state.vanishes) LimitLoads(&state, Loads::kSmall, "loads of the last start vanished", now_ns);
}

void Guard::Await(Slot slot) {
  ServiceState& state = Of(slot);
  state.is_awaited = true;
  state.used_ns = state.load_bytes = state.load_waste = 0;
}

// One that was awaited or guessed, and did not come, had no reader.
bool Guard::IsAStart(const ServiceState& state) {
  return state.used_ns != 0 || (!state.is_awaited && state.guess_left == UINT64_MAX);
}

void Guard::EndLoad(Slot slot, bool is_stopped) {
  ServiceState& state = Of(slot);
  state.is_over = true;
  if (are_hits_seen_ && IsAStart(state)) {
    uint64_t unread = 0;
    for (const auto& file : files_) {
      for (Cell& cell : file->cells) {
        if (cell.owner == slot) unread += std::exchange(cell.loaded, 0) * kPageBytes;
      }
    }
    state.waste += unread;
    state.load_waste += unread;
    state.unseen = 0;
    state.lost += unread;
    if (state.load_waste > state.load_bytes / 4) state.waste_now += unread;
    // A start that was stopped before it read says nothing of the next.
    const bool is_told = state.used_ns != 0 || !is_stopped;
    if (is_told && state.load_bytes >= kLeastLimit && !state.id.empty()) {
      if (state.load_waste <= state.load_bytes / 4) {
        wasted_starts_.erase(state.id);
      } else {
        if (wasted_starts_.size() >= kMaxHistory) wasted_starts_.erase(wasted_starts_.begin());
        ++wasted_starts_[state.id];
      }
    }
  }
  if (state.vanished < kMiB && state.load_bytes >= kNearWindow) SetExpectation(false);
  state.load_bytes = state.load_waste = 0;
}

void Guard::EndLoads() {
  for (size_t slot = 0; slot < services_.size(); ++slot)
    if (services_[slot] != nullptr && !services_[slot]->is_over) EndLoad(static_cast<Slot>(slot));
}

void Guard::End(Slot slot) {
  if (slot >= services_.size() || services_[slot] == nullptr) return;
  if (!services_[slot]->is_over) EndLoad(slot, /*is_stopped=*/true);
  for (const auto& file : files_) {
    if (file->counted_by == slot) file->counted_by = kNobody;
    for (Cell& cell : file->cells) {
      if (cell.owner == slot) cell = Cell{};
    }
  }
  *services_[slot] = ServiceState{};
  ForgetFilesOfNobody();
}

void Guard::SetRoom(Slot slot, uint64_t bytes, uint64_t usable) {
  Of(slot).room = bytes;
  Of(slot).usable = std::min(bytes, usable);
}

// The kernel's own passes miss what was dropped before: the count begins anew, once a minute at
// most.
void Guard::SetPasses(Slot slot, bool on, uint64_t now_ns) {
  ServiceState& state = Of(slot);
  state.makes_passes = on;
  if (!on || (state.passes_ns != 0 && now_ns < state.passes_ns + kRenewalNs)) return;
  state.passes_ns = now_ns;
  state.unmapped = state.returned = 0;
  state.credit = kUnmapCredit;
  state.has_returned = false;
}

// ------------------------------------------------------------------- judgement

// Of what readers read, next to nothing had been loaded.
bool Guard::IsFarOff(const ServiceState& state) const {
  const uint64_t read = state.seen_now + state.missed_now;
  return read >= kLeastEvidence && state.seen_now < read / 16 && state.unseen >= kSmallWindow / 2;
}

void Guard::LimitDrops(ServiceState* state, Drops to, std::string reason, uint64_t now_ns) {
  state->drops = to;
  state->drops_off.until_ns = now_ns + (kBackOffNs << state->drops_off.level);
  state->drops_off.level = std::min(state->drops_off.level + 1, kMaxLevel);
  state->reason = std::move(reason);
  state->regret_now = state->churn_now = 0;
  ++state->era;
}

void Guard::LimitLoads(ServiceState* state, Loads to, std::string reason, uint64_t now_ns) {
  state->loads = to;
  state->loads_off.until_ns = now_ns + (kBackOffNs << state->loads_off.level);
  state->loads_off.level = std::min(state->loads_off.level + 1, kMaxLevel);
  state->limited_stamp = StampOf(now_ns);
  state->reason = std::move(reason);
  state->waste_now = state->seen_since = state->gone = 0;
}

bool Guard::BackOff::IsFresh(uint64_t now_ns) const {
  return now_ns + (kBackOffNs << std::max(level - 1, 0)) < until_ns + kGraceNs;
}

// What was dropped before the last limit comes back for a while, and was limited for already.
bool Guard::Counts(const ServiceState& state, const Cell& cell, uint64_t now_ns) {
  return state.drops != Drops::kNoUnmap || (cell.flags & kEra) == EraOf(state) ||
         !state.drops_off.IsFresh(now_ns);
}

void Guard::Judge(ServiceState* state, uint64_t now_ns) {
  const uint64_t limit = LimitOf(state->model);
  const bool passes = state->makes_passes && state->total > state->room;
  const uint64_t most_regret = passes ? std::max(limit, state->model / 2) : limit;
  const uint64_t most_churn =
      passes ? 2 * state->model : std::max(4 * kLeastLimit, state->model / 4);
  // No reader waits for what is loaded again: pages that go to another node may do so for a while.
  if (state->drops == Drops::kNoUnmap && state->drops_off.IsFresh(now_ns)) state->churn_now = 0;
  if (state->loads == Loads::kSmall && state->loads_off.IsFresh(now_ns)) state->waste_now = 0;
  if (state->drops != Drops::kNone && state->regret_now > most_regret) {
    LimitDrops(state, state->drops == Drops::kOpen ? Drops::kNoUnmap : Drops::kNone,
               MiB(state->regret_now) + " that were dropped were missed again", now_ns);
  }
  // A reader does not wait for what is loaded again in time, and a page may be put on another node
  // so; but the disk reads it.
  if (state->drops != Drops::kNone && state->churn_now > most_churn) {
    LimitDrops(state, state->drops == Drops::kOpen ? Drops::kNoUnmap : Drops::kNone,
               MiB(state->churn_now) + " that were dropped were loaded again", now_ns);
  }
  if (state->loads == Loads::kNone) return;
  if (state->waste_now > limit) {
    state->vanishes |= state->gone > limit / 2;
    if (state->vanishes && state->total <= state->room) SetExpectation(true);
    LimitLoads(state, state->loads == Loads::kOpen ? Loads::kSmall : Loads::kNone,
               MiB(state->waste_now) + " that were loaded were not read, or were gone before",
               now_ns);
  } else if (state->loads == Loads::kOpen && IsFarOff(*state)) {
    const uint64_t read = state->seen_now + state->missed_now;
    LimitLoads(state, Loads::kSmall,
               "of " + MiB(read) + " that were read, " + MiB(state->seen_now) +
                   " had been loaded, and " + MiB(state->unseen) + " that were not",
               now_ns);
  }
}

// Little has come back for a while.
void Guard::Renew(ServiceState* state, uint64_t now_ns) {
  if (state->quiet_ns == 0) state->quiet_ns = now_ns;
  const bool fits = state->total <= state->room;
  if (state->returned > std::max(kMiB, state->unmapped / (fits ? 16 : 2))) {
    if (!std::exchange(state->has_returned, true))
      state->renewal_ns = std::min(2 * state->renewal_ns, kMostRenewalNs);
    state->credit = kUnmapCredit;
    state->returned = 0;
    state->quiet_ns = now_ns;
    return;
  }
  // A load lasts for minutes, and only then is it seen whether its reader comes back.
  if (now_ns < state->quiet_ns + state->renewal_ns) return;
  state->quiet_ns = now_ns;
  state->returned = 0;
  const bool was_used = std::exchange(state->unmapped, 0) > 0;
  if (std::exchange(state->has_returned, false) || !was_used) return;
  state->renewal_ns = std::max(kRenewalNs, state->renewal_ns / 2);
  if (!fits) state->credit = std::min<uint64_t>(2 * state->credit, uint64_t{1} << 40);
}

void Guard::Tick(uint64_t now_ns) {
  // Begun by 64 MiB, ended by a quarter of that.
  wants_hits_ = wants_hits_ && std::ranges::any_of(services_, [](const auto& state) {
                  return state != nullptr && state->unseen > kSmallWindow / 4;
                });
  for (size_t slot = 0; slot < services_.size(); ++slot) {
    if (services_[slot] == nullptr) continue;
    ServiceState& state = *services_[slot];
    if (state.pending == 0) state.pending_ns = 0;
    if (state.pending_ns == 0) state.pending_ns = now_ns;
    if (now_ns > state.pending_ns + kLostDropNs) state.pending = 0;
    Renew(&state, now_ns);
    if (!state.is_over && state.used_ns != 0 && now_ns > state.used_ns + kOverNs)
      EndLoad(static_cast<Slot>(slot));
    Judge(&state, now_ns);
    if (state.halved_ns == 0) state.halved_ns = now_ns;
    if (now_ns >= state.halved_ns + kHalfLifeNs) {
      state.halved_ns = now_ns;
      for (uint64_t* const each :
           {&state.regret_now, &state.churn_now, &state.waste_now, &state.lost, &state.gone})
        *each /= 2;
    }
    while (state.seen_now + state.missed_now > kMostHits) {
      state.seen_now /= 2;
      state.missed_now /= 2;
    }
    // One step back at a time.
    const auto ends = [now_ns](BackOff* off) {
      if (now_ns < off->until_ns) return false;
      off->until_ns = now_ns + (kBackOffNs << std::max(off->level - 1, 0));
      return true;
    };
    if (state.drops != Drops::kOpen) {
      if (ends(&state.drops_off)) {
        state.drops = state.drops == Drops::kNone ? Drops::kNoUnmap : Drops::kOpen;
        state.regret_now = state.churn_now = 0;
      }
    } else if (state.drops_off.level > 0 && ends(&state.drops_off)) {
      --state.drops_off.level;
    }
    if (state.loads != Loads::kOpen) {
      const bool is_right = state.seen_since >= (4 * kSmallWindow << state.loads_off.level);
      if (is_right || Survives(&state, now_ns) || ends(&state.loads_off)) {
        state.loads = state.loads == Loads::kNone ? Loads::kSmall : Loads::kOpen;
        if (state.loads == Loads::kOpen) state.vanishes = false;
        state.waste_now = state.seen_since = 0;
        // What lies unread from before says no more.
        state.seen_now = state.missed_now = 0;
      }
    } else if (state.loads_off.level > 0 && ends(&state.loads_off)) {
      --state.loads_off.level;
    }
    if (state.drops == Drops::kOpen && state.loads == Loads::kOpen) state.reason.clear();
  }
}

// ---------------------------------------------------------------------- limits

// Of files that do not fit, the kernel alone evicts as much in one pass: so much may go at once.
uint64_t Guard::Excess(const ServiceState& state) const {
  return state.total > state.room ? state.total - state.usable : 0;
}

uint64_t Guard::UnmapLeft(const ServiceState& state) const {
  // Passes drop all in turn: what comes back in time does no harm, the rest is regret.
  const bool passes = state.makes_passes && state.total > state.room;
  const uint64_t all = state.credit + Excess(state) + (passes ? state.total : 0);
  const uint64_t taken = state.unmapped + state.pending;
  return all > taken ? all - taken : 0;
}

uint64_t Guard::LoadWindow(const ServiceState& state) const {
  if (state.loads == Loads::kNone) return 0;
  if (state.loads == Loads::kSmall) return state.vanishes ? kNearWindow : kSmallWindow;
  const uint64_t earned = kSmallWindow + 4 * state.seen_since;
  if (state.loads_off.level > 0) return earned;
  const auto wasted = wasted_starts_.find(state.id);
  if (wasted != wasted_starts_.end()) {
    const uint64_t quarter = state.room == UINT64_MAX ? 0 : state.room / 4;
    return wasted->second > 1 ? earned : std::max(earned, quarter);
  }
  const bool is_bounded = are_hits_seen_ && state.room != UINT64_MAX;
  return is_bounded ? std::max(kSmallWindow, state.room) : UINT64_MAX;
}

// How much of a range, from its beginning, is alike: tried too often of late, or not.
uint64_t Guard::AllowedByFailures(uint64_t file, uint64_t offset, uint64_t size, uint64_t now_ns,
                                  bool* ok) {
  *ok = true;
  uint64_t at = offset;
  while (at < offset + size) {
    const auto found = failures_.find(KeyOf(file, at));
    bool may = true;
    if (found != failures_.end()) {
      Failure& failure = found->second;
      if (now_ns >= failure.since_ns + kFailureNs) failure = {now_ns, 0};
      may = failure.tries < kFailuresAMinute;
    }
    if (at == offset) *ok = may;
    if (may != *ok) break;
    if (may && found != failures_.end()) ++found->second.tries;
    at = (at / kStepBytes + 1) * kStepBytes;
  }
  return std::min(at, offset + size) - offset;
}

Guard::Verdict Guard::AllowLoad(Slot slot, uint64_t file, uint64_t offset, uint64_t size,
                                uint64_t queued, uint64_t now_ns, bool is_waited) {
  ServiceState& state = Of(slot);
  Verdict verdict{.bytes = size};
  uint64_t left = PlanBytes(slot, queued);
  // The kernel makes room for it, from what others read: no more than is read, too.
  if (is_waited && are_hits_seen_) {
    const uint64_t earned = kSmallWindow + 4 * state.seen_since;
    left = std::min(left, earned - std::min(earned, state.unseen + queued));
  }
  if (left < size) {
    verdict.bytes = left / kStepBytes * kStepBytes;
    verdict.is_allowed = verdict.bytes > 0;
    if (!verdict.is_allowed) verdict.bytes = size;
  }
  if (verdict.is_allowed && !failures_.empty()) {
    bool may = true;
    verdict.bytes = AllowedByFailures(file, offset, verdict.bytes, now_ns, &may);
    verdict.is_allowed = may;
    if (!may) state.failing += verdict.bytes;
  }
  if (!verdict.is_allowed) {
    state.refused_loads += verdict.bytes;
  } else if (state.guess_left != UINT64_MAX) {
    Take(&state.guess_left, verdict.bytes);
  }
  return verdict;
}

uint64_t Guard::WindowLeft(Slot slot, uint64_t queued) {
  const ServiceState& state = Of(slot);
  const uint64_t window = LoadWindow(state);
  if (window == UINT64_MAX) return window;
  const uint64_t taken = state.unseen + state.lost + state.gone + queued;
  return window - std::min(window, taken);
}

uint64_t Guard::PlanBytes(Slot slot, uint64_t queued) {
  return std::min(Of(slot).guess_left, WindowLeft(slot, queued));
}

Guard::Verdict Guard::AllowDrop(Slot slot, uint64_t offset, uint64_t size, bool unmap) {
  ServiceState& state = Of(slot);
  Verdict verdict{.bytes = size, .is_allowed = state.drops != Drops::kNone};
  if (!verdict.is_allowed) state.refused_drops += size;
  if (!verdict.is_allowed || !unmap) return verdict;
  const uint64_t left = state.drops == Drops::kOpen ? UnmapLeft(state) : 0;
  // Steps end at multiples of 2 MiB, so that large folios go whole.
  const uint64_t end = left >= size ? offset + size : (offset + left) / kStepBytes * kStepBytes;
  verdict.unmap = end > offset;
  if (!verdict.unmap) {
    state.refused_drops += size;
    return verdict;
  }
  verdict.bytes = end - offset;
  state.pending += verdict.bytes;
  return verdict;
}

GuardView Guard::View(Slot slot) const {
  GuardView view;
  if (slot >= services_.size() || services_[slot] == nullptr) {
    view.credit = kUnmapCredit;
    return view;
  }
  const ServiceState& state = *services_[slot];
  const bool is_spent =
      state.drops == Drops::kOpen && state.has_returned && UnmapLeft(state) < kStepBytes;
  view.reason = state.reason;
  view.state.clear();
  const auto add = [&view](const char* word) {
    view.state += (view.state.empty() ? "" : "+") + std::string(word);
  };
  if (state.drops == Drops::kNone) add("no_drops");
  if (state.drops == Drops::kNoUnmap || is_spent) add("no_unmap");
  if (state.loads == Loads::kNone) add("no_loads");
  if (state.loads == Loads::kSmall) add("small_window");
  if (state.failed_loads >= kFailuresAMinute) add("read_errors");
  if (view.state.empty()) view.state = "open";
  if (view.reason.empty() && is_spent)
    view.reason = "of " + MiB(state.unmapped) + " that were dropped while mapped, much came back";
  view.regret = state.regret;
  view.churn = state.churn;
  view.waste = state.waste;
  view.vanished = state.vanished;
  view.displaced = state.displaced;
  const uint64_t credit = UnmapLeft(state);
  view.credit = state.drops != Drops::kOpen ? 0 : std::min(credit, state.total + kUnmapCredit);
  const uint64_t window = LoadWindow(state);
  view.window = window == UINT64_MAX ? 0 : window;
  view.refused_loads = state.refused_loads;
  view.refused_drops = state.refused_drops;
  view.failing = state.failing;
  if (state.failed_loads >= kFailuresAMinute) view.failed_file = state.failed_file;
  view.failed_error = state.failed_error;
  return view;
}

}  // namespace ppc
