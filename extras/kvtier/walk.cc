// SPDX-License-Identifier: Apache-2.0
#include "extras/kvtier/walk.h"

#include <algorithm>

namespace ppc::kvtier {
namespace {

// Readers take many objects at once, then none for a while: the mean counts.
uint64_t Smooth(uint64_t old, uint64_t sample, uint64_t weight) {
  return old == 0 ? sample : old - old / weight + sample / weight;
}

}  // namespace

Walk::Slot* Walk::Find(Key key) {
  // Starts at the reader: most matches are near it.
  for (size_t i = ahead_from_; i < slots_.size(); i++) {
    if (slots_[i].key == key) return &slots_[i];
  }
  for (size_t i = 0; i < ahead_from_; i++) {
    if (slots_[i].key == key) return &slots_[i];
  }
  return nullptr;
}

void Walk::Forget(const Slot& slot, bool is_wrong, ObjectTable* table,
                  PrefetchBudget* budget) const {
  Object* const object = table->Find(slot.key);
  if (object == nullptr || object->walk != number_ + 1) return;
  object->walk = 0;
  if (!is_wrong || slot.is_read) return;
  // An object still being loaded counts when it is cached.
  if (object->Is(Object::kGuessed)) budget->NoteWrong(object->bytes());
  if (object->Is(Object::kGuessed) || (slot.is_asked && !slot.is_done)) object->Set(Object::kWrong);
}

void Walk::ForgetAll(bool is_wrong, ObjectTable* table, PrefetchBudget* budget) {
  for (const Slot& slot : slots_) Forget(slot, is_wrong, table, budget);
  slots_.clear();
  ahead_from_ = 0;
  ahead_bytes_ = 0;
}

void Walk::Confirm(Object* before, Object* object, ObjectTable* table, PrefetchBudget* budget) {
  if (run_bytes_ == 0) budget->NoteFirstGuess(/*is_right=*/true);
  if (before != nullptr) {
    proof_ = before->confidence == 0 ? proof_ + 1 : 0;
    table->Follow(before, object->key);
  }
  object->walk = 0;
  Note(object->key);
  depth_ = std::min(2 * depth_, kMostAhead);
  run_bytes_ += object->bytes();
  strays_ = 0;
  left_for_ = 0;
}

bool Walk::Read(Object* object, uint64_t now_ns, bool is_miss, ObjectTable* table,
                PrefetchBudget* budget) {
  Slot* const slot = Find(object->key);
  if (slot == nullptr) return is_miss;
  const auto at = static_cast<size_t>(
      std::find_if(slots_.begin(), slots_.end(), [slot](const Slot& s) { return &s == slot; }) -
      slots_.begin());
  slot->is_read = true;
  Object* before = nullptr;
  if (at == ahead_from_) before = table->Find(at == 0 ? last_ : slots_[at - 1].key);
  Confirm(before, object, table, budget);
  const bool is_late = is_miss || !slot->is_done || now_ns < slot->done_ns + kJustNowNs;
  distance_.NoteArrival(now_ns, is_late, /*was_expected=*/true);
  for (; ahead_from_ <= at; ahead_from_++) ahead_bytes_ -= slots_[ahead_from_].bytes;
  while (ahead_from_ > 0 && (slots_.front().is_read || ahead_from_ > kDisorder)) {
    Forget(slots_.front(), /*is_wrong=*/true, table, budget);
    last_ = slots_.front().key;
    slots_.pop_front();
    ahead_from_--;
  }
  return is_late;
}

void Walk::Pass(Object* object, uint64_t now_ns, bool is_miss, ObjectTable* table,
                PrefetchBudget* budget) {
  Confirm(table->Find(tail()), object, table, budget);
  distance_.NoteArrival(now_ns, is_miss, /*was_expected=*/ahead() > 0);
  ForgetAll(/*is_wrong=*/false, table, budget);
  last_ = object->key;
}

void Walk::Learn(Object* object, uint64_t now_ns, bool is_miss, ObjectTable* table,
                 PrefetchBudget* budget) {
  if (Object* const before = table->Find(tail())) table->Follow(before, object->key);
  ForgetAll(/*is_wrong=*/true, table, budget);
  last_ = object->key;
  Note(object->key);
  depth_ = 1;
  run_bytes_ = 0;
  proof_ = 0;
  distance_.NoteArrival(now_ns, is_miss, /*was_expected=*/false);
}

void Walk::Stray(Key key, PrefetchBudget* budget) {
  if (strays_++ > 0) return;
  if (run_bytes_ == 0) budget->NoteFirstGuess(/*is_right=*/false);
  left_for_ = key;
  proof_ = 0;
  depth_ = std::max<size_t>(depth_ / 2, 1);
}

void Walk::Extend(uint64_t most_bytes, ObjectTable* table) {
  const size_t most = std::min<size_t>(depth_, distance_.Needed());
  size_t gone = 0;
  while (ahead() < most) {
    Object* const end = table->Find(tail());
    if (end == nullptr || !IsReliable(*end)) return;
    Object* const next = table->Find(end->next);
    // Another walk, or this one, is about to load it: the chain is a cycle.
    if (next == nullptr || next->walk != 0 || next->key == last_) return;
    if (next->Is(Object::kGone)) {
      if (++gone > kMostGoneAtOnce) return;
      end->next = next->next == end->key ? 0 : next->next;
      continue;
    }
    const uint64_t bytes = next->bytes();
    if (ahead_bytes_ + bytes > most_bytes && (ahead() > 0 || most_bytes == 0)) return;
    ahead_bytes_ += bytes;
    next->walk = static_cast<uint8_t>(number_ + 1);
    slots_.push_back(Slot{.key = next->key, .bytes = static_cast<uint32_t>(bytes)});
  }
}

void Walk::End(bool is_left, ObjectTable* table, PrefetchBudget* budget) {
  Object* const from = table->Find(ahead_from_ == 0 ? last_ : slots_[ahead_from_ - 1].key);
  if (is_left && from != nullptr && from->next != 0 && from->next != left_for_)
    table->Fail(from, left_for_);
  ForgetAll(/*is_wrong=*/true, table, budget);
}

void PrefetchDistance::NoteArrival(uint64_t now_ns, bool has_waited, bool was_expected) {
  if (arrived_ns_ != 0 && now_ns >= arrived_ns_) {
    const uint64_t step = now_ns - arrived_ns_;
    CountBurst(step, has_waited);
    if (!has_waited_) {
      step_ns_ = is_measured_ ? Smooth(step_ns_, step, 64) : step;
      is_measured_ = true;
    } else if (!is_measured_) {
      // The sample includes the disk's time: the reader itself is faster.
      step_ns_ = step_ns_ == 0 ? step : std::min(step_ns_, step);
    }
  }
  arrived_ns_ = now_ns;
  has_waited_ = has_waited;
  since_boost_++;
  if (!was_expected) return;
  if (has_waited) {
    in_time_ = 0;
    // One delay makes all loads under way late: wait until the new distance has taken effect.
    if (since_boost_ > Needed() / 2 && boost_ < kMostBoost) {
      boost_ *= 2;
      since_boost_ = 0;
    }
  } else if (++in_time_ >= kCalm && boost_ > 1) {
    boost_ /= 2;
    in_time_ = 0;
  }
}

// Objects that follow each other faster than any could be loaded must be cached before the first is
// read: as many as in the last bursts.
void PrefetchDistance::CountBurst(uint64_t step, bool has_waited) {
  if (load_ns_ == 0) return;  // the speed of loads is unknown
  // A reader that waited did so for its load, and for loads before it in the queue.
  const uint64_t own = has_waited ? step / 4 : step;
  if (own < load_ns_) {
    if (!has_waited) in_burst_ = std::min(in_burst_ + 1, kMostBurst);
    return;
  }
  burst_ = std::max(in_burst_, burst_ - (burst_ + 7) / 8);
  in_burst_ = 0;
}

// The minimum excludes our own queue; it rises again when the device is slow.
void PrefetchDistance::NoteLoad(uint64_t took_ns) {
  load_ns_ = load_ns_ == 0 || took_ns < load_ns_ ? took_ns : Smooth(load_ns_, took_ns, 64);
}

PrefetchDistance PrefetchDistance::ForNext() const {
  PrefetchDistance next;
  next.step_ns_ = step_ns_;
  next.load_ns_ = load_ns_;
  next.burst_ = burst_;
  return next;
}

uint64_t PrefetchDistance::Needed() const {
  if (load_ns_ == 0) return kUnknown;
  const uint64_t step = std::max<uint64_t>(step_ns_, 1000);
  return std::min<uint64_t>((2 + 2 * load_ns_ / step) * boost_ + burst_, 1 << 20);
}

}  // namespace ppc::kvtier
