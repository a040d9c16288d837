// SPDX-License-Identifier: Apache-2.0
// What follows from the ledger for a service: judgement, limits, what `status` shows.
#include <algorithm>
#include <utility>

#include "daemon/backend/backend.h"
#include "daemon/exec/guard.h"

namespace ppc {

// --------------------------------------------------------------------- service

void Guard::Begin(Slot slot, const std::string& id) {
  End(slot);
  Of(slot).id = id;
}

void Guard::Await(Slot slot) {
  Ledger& ledger = Of(slot);
  ledger.is_awaited = true;
  ledger.used_ns = ledger.load_bytes = ledger.load_waste = 0;
}

// One that was awaited or guessed, and did not come, had no reader.
bool Guard::IsAStart(const Ledger& ledger) {
  return ledger.used_ns != 0 || (!ledger.is_awaited && ledger.guess_left == UINT64_MAX);
}

void Guard::EndLoad(Slot slot, bool is_stopped) {
  Ledger& ledger = Of(slot);
  ledger.is_over = true;
  if (are_hits_seen_ && IsAStart(ledger)) {
    uint64_t unread = 0;
    for (const auto& file : files_) {
      for (Cell& cell : file->cells) {
        if (cell.owner == slot) unread += std::exchange(cell.loaded, 0) * kPageBytes;
      }
    }
    ledger.waste += unread;
    ledger.load_waste += unread;
    ledger.unseen = 0;
    ledger.lost += unread;
    if (ledger.load_waste > ledger.load_bytes / 4) ledger.waste_now += unread;
    // A start that was stopped before it read says nothing of the next.
    const bool is_told = ledger.used_ns != 0 || !is_stopped;
    if (is_told && ledger.load_bytes >= kLeastLimit && !ledger.id.empty()) {
      if (ledger.load_waste <= ledger.load_bytes / 4) {
        wasted_starts_.erase(ledger.id);
      } else {
        if (wasted_starts_.size() >= kMaxHistory) wasted_starts_.erase(wasted_starts_.begin());
        ++wasted_starts_[ledger.id];
      }
    }
  }
  ledger.load_bytes = ledger.load_waste = 0;
}

void Guard::EndLoads() {
  for (size_t slot = 0; slot < ledgers_.size(); ++slot)
    if (ledgers_[slot] != nullptr && !ledgers_[slot]->is_over) EndLoad(static_cast<Slot>(slot));
}

void Guard::End(Slot slot) {
  if (slot >= ledgers_.size() || ledgers_[slot] == nullptr) return;
  if (!ledgers_[slot]->is_over) EndLoad(slot, /*is_stopped=*/true);
  for (const auto& file : files_) {
    if (file->counted_by == slot) file->counted_by = kNobody;
    for (Cell& cell : file->cells) {
      if (cell.owner == slot) cell = Cell{};
    }
  }
  *ledgers_[slot] = Ledger{};
  ForgetFilesOfNobody();
}

void Guard::SetRoom(Slot slot, uint64_t bytes, uint64_t usable) {
  Of(slot).room = bytes;
  Of(slot).usable = std::min(bytes, usable);
}

// The kernel's own passes miss what was dropped before: the count begins anew, once a minute at
// most.
void Guard::SetPasses(Slot slot, bool on, uint64_t now_ns) {
  Ledger& ledger = Of(slot);
  ledger.makes_passes = on;
  if (!on || (ledger.passes_ns != 0 && now_ns < ledger.passes_ns + kRenewalNs)) return;
  ledger.passes_ns = now_ns;
  ledger.unmapped = ledger.returned = 0;
  ledger.credit = kUnmapCredit;
  ledger.has_returned = false;
}

// ------------------------------------------------------------------- judgement

// The last limit was set for all bytes loaded before it: they do not count again.
void Guard::Vanish(Ledger* ledger, const Cell& cell, uint64_t bytes) {
  ledger->vanished += bytes;
  ledger->seen_since = 0;
  const auto age = static_cast<int16_t>(cell.at - ledger->limited_stamp);
  if (ledger->loads != Loads::kOpen && age <= 0) return;
  ledger->waste_now += bytes;
  ledger->gone += bytes;
  if (ledger->vanishes) ledger->gone = std::min(ledger->gone, kNearWindow);
}

// Of what readers read, next to nothing had been loaded.
bool Guard::IsFarOff(const Ledger& ledger) const {
  const uint64_t read = ledger.seen_now + ledger.missed_now;
  return read >= kLeastEvidence && ledger.seen_now < read / 16 && ledger.unseen >= kSmallWindow / 2;
}

void Guard::LimitDrops(Ledger* ledger, Drops to, std::string reason, uint64_t now_ns) {
  ledger->drops = to;
  ledger->drops_off.until_ns = now_ns + (kBackOffNs << ledger->drops_off.level);
  ledger->drops_off.level = std::min(ledger->drops_off.level + 1, kMaxLevel);
  ledger->reason = std::move(reason);
  ledger->regret_now = ledger->churn_now = 0;
  ++ledger->era;
}

void Guard::LimitLoads(Ledger* ledger, Loads to, std::string reason, uint64_t now_ns) {
  ledger->loads = to;
  ledger->loads_off.until_ns = now_ns + (kBackOffNs << ledger->loads_off.level);
  ledger->loads_off.level = std::min(ledger->loads_off.level + 1, kMaxLevel);
  ledger->limited_stamp = StampOf(now_ns);
  ledger->reason = std::move(reason);
  ledger->waste_now = ledger->seen_since = ledger->gone = 0;
}

bool Guard::BackOff::IsFresh(uint64_t now_ns) const {
  return now_ns + (kBackOffNs << std::max(level - 1, 0)) < until_ns + kGraceNs;
}

// What was dropped before the last limit comes back for a while, and was limited for already.
bool Guard::Counts(const Ledger& ledger, const Cell& cell, uint64_t now_ns) {
  return ledger.drops != Drops::kNoUnmap || (cell.flags & kEra) == EraOf(ledger) ||
         !ledger.drops_off.IsFresh(now_ns);
}

void Guard::Judge(Ledger* ledger, uint64_t now_ns) {
  const uint64_t limit = LimitOf(ledger->model);
  const bool passes = ledger->makes_passes && ledger->total > ledger->room;
  const uint64_t most_regret = passes ? std::max(limit, ledger->model / 2) : limit;
  const uint64_t most_churn =
      passes ? 2 * ledger->model : std::max(4 * kLeastLimit, ledger->model / 4);
  // No reader waits for what is loaded again: pages that go to another node may do so for a while.
  if (ledger->drops == Drops::kNoUnmap && ledger->drops_off.IsFresh(now_ns)) ledger->churn_now = 0;
  if (ledger->loads == Loads::kSmall && ledger->loads_off.IsFresh(now_ns)) ledger->waste_now = 0;
  if (ledger->drops != Drops::kNone && ledger->regret_now > most_regret) {
    LimitDrops(ledger, ledger->drops == Drops::kOpen ? Drops::kNoUnmap : Drops::kNone,
               MiB(ledger->regret_now) + " that were dropped were missed again", now_ns);
  }
  // A reader does not wait for what is loaded again in time, and a page may be put on another node
  // so; but the disk reads it.
  if (ledger->drops != Drops::kNone && ledger->churn_now > most_churn) {
    LimitDrops(ledger, ledger->drops == Drops::kOpen ? Drops::kNoUnmap : Drops::kNone,
               MiB(ledger->churn_now) + " that were dropped were loaded again", now_ns);
  }
  if (ledger->loads == Loads::kNone) return;
  if (ledger->waste_now > limit) {
    ledger->vanishes |= ledger->gone > limit / 2;
    LimitLoads(ledger, ledger->loads == Loads::kOpen ? Loads::kSmall : Loads::kNone,
               MiB(ledger->waste_now) + " that were loaded were not read, or were gone before",
               now_ns);
  } else if (ledger->loads == Loads::kOpen && IsFarOff(*ledger)) {
    const uint64_t read = ledger->seen_now + ledger->missed_now;
    LimitLoads(ledger, Loads::kSmall,
               "of " + MiB(read) + " that were read, " + MiB(ledger->seen_now) +
                   " had been loaded, and " + MiB(ledger->unseen) + " that were not",
               now_ns);
  }
}

// Little has come back for a while.
void Guard::Renew(Ledger* ledger, uint64_t now_ns) {
  if (ledger->quiet_ns == 0) ledger->quiet_ns = now_ns;
  const bool fits = ledger->total <= ledger->room;
  if (ledger->returned > std::max(kMiB, ledger->unmapped / (fits ? 16 : 2))) {
    if (!std::exchange(ledger->has_returned, true))
      ledger->renewal_ns = std::min(2 * ledger->renewal_ns, kMostRenewalNs);
    ledger->credit = kUnmapCredit;
    ledger->returned = 0;
    ledger->quiet_ns = now_ns;
    return;
  }
  // A load lasts for minutes, and only then is it seen whether its reader comes back.
  if (now_ns < ledger->quiet_ns + ledger->renewal_ns) return;
  ledger->quiet_ns = now_ns;
  ledger->returned = 0;
  const bool was_used = std::exchange(ledger->unmapped, 0) > 0;
  if (std::exchange(ledger->has_returned, false) || !was_used) return;
  ledger->renewal_ns = std::max(kRenewalNs, ledger->renewal_ns / 2);
  if (!fits) ledger->credit = std::min<uint64_t>(2 * ledger->credit, uint64_t{1} << 40);
}

void Guard::Tick(uint64_t now_ns) {
  // Begun by 64 MiB, ended by a quarter of that.
  wants_hits_ = wants_hits_ && std::ranges::any_of(ledgers_, [](const auto& ledger) {
                  return ledger != nullptr && ledger->unseen > kSmallWindow / 4;
                });
  for (size_t slot = 0; slot < ledgers_.size(); ++slot) {
    if (ledgers_[slot] == nullptr) continue;
    Ledger& ledger = *ledgers_[slot];
    if (ledger.pending == 0) ledger.pending_ns = 0;
    if (ledger.pending_ns == 0) ledger.pending_ns = now_ns;
    if (now_ns > ledger.pending_ns + kLostDropNs) ledger.pending = 0;
    Renew(&ledger, now_ns);
    if (!ledger.is_over && ledger.used_ns != 0 && now_ns > ledger.used_ns + kOverNs)
      EndLoad(static_cast<Slot>(slot));
    Judge(&ledger, now_ns);
    if (ledger.halved_ns == 0) ledger.halved_ns = now_ns;
    if (now_ns >= ledger.halved_ns + kHalfLifeNs) {
      ledger.halved_ns = now_ns;
      for (uint64_t* const each :
           {&ledger.regret_now, &ledger.churn_now, &ledger.waste_now, &ledger.lost, &ledger.gone})
        *each /= 2;
    }
    while (ledger.seen_now + ledger.missed_now > kMostHits) {
      ledger.seen_now /= 2;
      ledger.missed_now /= 2;
    }
    // One step back at a time.
    const auto ends = [now_ns](BackOff* off) {
      if (now_ns < off->until_ns) return false;
      off->until_ns = now_ns + (kBackOffNs << std::max(off->level - 1, 0));
      return true;
    };
    if (ledger.drops != Drops::kOpen) {
      if (ends(&ledger.drops_off)) {
        ledger.drops = ledger.drops == Drops::kNone ? Drops::kNoUnmap : Drops::kOpen;
        ledger.regret_now = ledger.churn_now = 0;
      }
    } else if (ledger.drops_off.level > 0 && ends(&ledger.drops_off)) {
      --ledger.drops_off.level;
    }
    if (ledger.loads != Loads::kOpen) {
      const bool is_right = ledger.seen_since >= (4 * kSmallWindow << ledger.loads_off.level);
      if (is_right || ends(&ledger.loads_off)) {
        ledger.loads = ledger.loads == Loads::kNone ? Loads::kSmall : Loads::kOpen;
        if (ledger.loads == Loads::kOpen) ledger.vanishes = false;
        ledger.waste_now = ledger.seen_since = 0;
        // What lies unread from before says no more.
        ledger.seen_now = ledger.missed_now = 0;
      }
    } else if (ledger.loads_off.level > 0 && ends(&ledger.loads_off)) {
      --ledger.loads_off.level;
    }
    if (ledger.drops == Drops::kOpen && ledger.loads == Loads::kOpen) ledger.reason.clear();
  }
}

// ---------------------------------------------------------------------- limits

// Of files that do not fit, the kernel alone evicts as much in one pass: so much may go at once.
uint64_t Guard::Excess(const Ledger& ledger) const {
  return ledger.total > ledger.room ? ledger.total - ledger.usable : 0;
}

uint64_t Guard::UnmapLeft(const Ledger& ledger) const {
  // Passes drop all in turn: what comes back in time does no harm, the rest is regret.
  const bool passes = ledger.makes_passes && ledger.total > ledger.room;
  const uint64_t all = ledger.credit + Excess(ledger) + (passes ? ledger.total : 0);
  const uint64_t taken = ledger.unmapped + ledger.pending;
  return all > taken ? all - taken : 0;
}

uint64_t Guard::LoadWindow(const Ledger& ledger) const {
  if (ledger.loads == Loads::kNone) return 0;
  if (ledger.loads == Loads::kSmall) return ledger.vanishes ? kNearWindow : kSmallWindow;
  const uint64_t earned = kSmallWindow + 4 * ledger.seen_since;
  if (ledger.loads_off.level > 0) return earned;
  const auto wasted = wasted_starts_.find(ledger.id);
  if (wasted != wasted_starts_.end()) {
    const uint64_t quarter = ledger.room == UINT64_MAX ? 0 : ledger.room / 4;
    return wasted->second > 1 ? earned : std::max(earned, quarter);
  }
  const bool is_bounded = are_hits_seen_ && ledger.room != UINT64_MAX;
  return is_bounded ? std::max(kSmallWindow, ledger.room) : UINT64_MAX;
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
  Ledger& ledger = Of(slot);
  Verdict verdict{.bytes = size};
  uint64_t left = PlanBytes(slot, queued);
  // The kernel makes room for it, from what others read: no more than is read, too.
  if (is_waited && are_hits_seen_) {
    const uint64_t earned = kSmallWindow + 4 * ledger.seen_since;
    left = std::min(left, earned - std::min(earned, ledger.unseen + queued));
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
    if (!may) ledger.failing += verdict.bytes;
  }
  if (!verdict.is_allowed) {
    ledger.refused_loads += verdict.bytes;
  } else if (ledger.guess_left != UINT64_MAX) {
    Take(&ledger.guess_left, verdict.bytes);
  }
  return verdict;
}

uint64_t Guard::WindowLeft(Slot slot, uint64_t queued) {
  const Ledger& ledger = Of(slot);
  const uint64_t window = LoadWindow(ledger);
  if (window == UINT64_MAX) return window;
  const uint64_t taken = ledger.unseen + ledger.lost + ledger.gone + queued;
  return window - std::min(window, taken);
}

uint64_t Guard::PlanBytes(Slot slot, uint64_t queued) {
  return std::min(Of(slot).guess_left, WindowLeft(slot, queued));
}

Guard::Verdict Guard::AllowDrop(Slot slot, uint64_t offset, uint64_t size, bool unmap) {
  Ledger& ledger = Of(slot);
  Verdict verdict{.bytes = size, .is_allowed = ledger.drops != Drops::kNone};
  if (!verdict.is_allowed) ledger.refused_drops += size;
  if (!verdict.is_allowed || !unmap) return verdict;
  const uint64_t left = ledger.drops == Drops::kOpen ? UnmapLeft(ledger) : 0;
  // Steps end at multiples of 2 MiB, so that large folios go whole.
  const uint64_t end = left >= size ? offset + size : (offset + left) / kStepBytes * kStepBytes;
  verdict.unmap = end > offset;
  if (!verdict.unmap) {
    ledger.refused_drops += size;
    return verdict;
  }
  verdict.bytes = end - offset;
  ledger.pending += verdict.bytes;
  return verdict;
}

GuardView Guard::View(Slot slot) const {
  GuardView view;
  if (slot >= ledgers_.size() || ledgers_[slot] == nullptr) {
    view.credit = kUnmapCredit;
    return view;
  }
  const Ledger& ledger = *ledgers_[slot];
  const bool is_spent =
      ledger.drops == Drops::kOpen && ledger.has_returned && UnmapLeft(ledger) < kStepBytes;
  view.reason = ledger.reason;
  view.state.clear();
  const auto add = [&view](const char* word) {
    view.state += (view.state.empty() ? "" : "+") + std::string(word);
  };
  if (ledger.drops == Drops::kNone) add("no_drops");
  if (ledger.drops == Drops::kNoUnmap || is_spent) add("no_unmap");
  if (ledger.loads == Loads::kNone) add("no_loads");
  if (ledger.loads == Loads::kSmall) add("small_window");
  if (ledger.failed_loads >= kFailuresAMinute) add("read_errors");
  if (view.state.empty()) view.state = "open";
  if (view.reason.empty() && is_spent)
    view.reason = "of " + MiB(ledger.unmapped) + " that were dropped while mapped, much came back";
  view.regret = ledger.regret;
  view.churn = ledger.churn;
  view.waste = ledger.waste;
  view.vanished = ledger.vanished;
  view.displaced = ledger.displaced;
  const uint64_t credit = UnmapLeft(ledger);
  view.credit = ledger.drops != Drops::kOpen ? 0 : std::min(credit, ledger.total + kUnmapCredit);
  const uint64_t window = LoadWindow(ledger);
  view.window = window == UINT64_MAX ? 0 : window;
  view.refused_loads = ledger.refused_loads;
  view.refused_drops = ledger.refused_drops;
  view.failing = ledger.failing;
  if (ledger.failed_loads >= kFailuresAMinute) view.failed_file = ledger.failed_file;
  view.failed_error = ledger.failed_error;
  return view;
}

}  // namespace ppc
