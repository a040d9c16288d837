// SPDX-License-Identifier: Apache-2.0
#include "extras/kvtier/clock_cache.h"

#include <algorithm>

namespace ppc::kvtier {

void ClockCache::NoteCached(Object* object, bool wanted) {
  if (wanted && object->heat < Object::kMostHeat) object->heat++;
  if (object->Is(Object::kResident)) return;
  // Displaced before and known again: its new entry decides when to drop it.
  if (Object* const before = displaced_.Find(object->key)) {
    Forget(before->bytes());
    displaced_.Remove(before);
  }
  object->Set(Object::kResident);
  kept_ += object->bytes();
}

void ClockCache::NoteGrown(const Object& object, uint64_t before) {
  if (!object.Is(Object::kResident)) return;
  kept_ += object.bytes() - before;
}

void ClockCache::NoteGone(Object* object) {
  if (!object->Is(Object::kResident)) return;
  object->Clear(Object::kResident);
  Forget(object->bytes());
}

void ClockCache::NoteDisplaced(const Object& object) {
  if (!object.Is(Object::kResident)) return;
  Object forgotten;
  *displaced_.Add(object.key, &forgotten) =
      object;  // no entry in here is a guess, so there is room
  if (forgotten.key != 0) Forget(forgotten.bytes());
}

// Mapped, dirty or pinned: not retried at once.
void ClockCache::NoteDropFailed(Object* object) {
  NoteCached(object, /*wanted=*/false);
  object->heat = std::max<uint8_t>(object->heat, 2);
}

void ClockCache::Ask(Key key, uint64_t bytes, ppc::IoList* out) {
  // The whole block: read-ahead may have cached more than was read.
  out->Add(FileOf(key), BlockOf(key) * block_bytes_, block_bytes_);
  Forget(bytes);
  dropped_ += bytes;
}

// Returns the requested bytes.
uint64_t ClockCache::DropDisplaced(ppc::IoList* out) {
  uint64_t asked = 0;
  for (size_t i = 0; displaced_.size() > 0 && i < displaced_.places(); i++) {
    Object& object = displaced_.At(i);
    if (object.key == 0) continue;
    if (out->size() == PPC_MAX_IOS) break;
    Ask(object.key, object.bytes(), out);
    asked += object.bytes();
    displaced_.Remove(&object);
  }
  return asked;
}

void ClockCache::Drop(uint64_t bytes, ppc::IoList* out) {
  uint64_t left = bytes;
  const auto taken = [&left](uint64_t part) { left -= std::min(left, part); };
  taken(DropDisplaced(out));
  const size_t places = table_->places();
  // Each pass lowers every heat by one, so this many steps reach any object.
  const size_t steps = std::min(kMostSteps, places * (Object::kMostHeat + 1));
  for (size_t i = 0; i < steps && left > 0 && out->size() < PPC_MAX_IOS; i++) {
    Object& object = table_->At(hand_++ % places);
    if (object.key == 0 || object.walk != 0) continue;
    const bool is_cold = object.heat == 0 || object.Is(Object::kWrong);
    if (object.heat > 0) object.heat--;
    if (!is_cold || !object.Is(Object::kResident)) continue;
    object.Clear(Object::kResident | Object::kGuessed | Object::kWrong);
    Ask(object.key, object.bytes(), out);
    taken(object.bytes());
  }
}

}  // namespace ppc::kvtier
