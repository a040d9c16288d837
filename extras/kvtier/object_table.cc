// SPDX-License-Identifier: Apache-2.0
#include "extras/kvtier/object_table.h"

#include <algorithm>
#include <bit>
#include <utility>

namespace ppc::kvtier {
namespace {

uint64_t MixKey(uint64_t x) {
  x += 0x9e3779b97f4a7c15;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
  x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
  return x ^ (x >> 31);
}

}  // namespace

void Object::Extend(uint64_t first, uint64_t count) {
  if (count == 0) return;
  const uint64_t begin = pages == 0 ? first : std::min<uint64_t>(first_page, first);
  const uint64_t end =
      pages == 0 ? first + count : std::max<uint64_t>(first_page + uint64_t{pages}, first + count);
  first_page = static_cast<uint16_t>(begin);
  pages = static_cast<uint16_t>(end - begin);
}

ObjectTable::ObjectTable(size_t max_bytes)
    : max_sets_(std::bit_floor(std::max<size_t>(max_bytes / (kWays * sizeof(Object)), 1))),
      sets_(std::min(max_sets_, kFirstSets)) {
  places_.reserve(max_sets_ * kWays);  // reserves address space, so that it grows in place
  places_.resize(sets_ * kWays);
}

std::array<size_t, 2> ObjectTable::SetsOf(Key key) const {
  const uint64_t hash = MixKey(key);
  const size_t mask = sets_ - 1;
  return {static_cast<size_t>(hash) & mask, static_cast<size_t>(hash >> 32) & mask};
}

Object* ObjectTable::Find(Key key) {
  for (const size_t set : SetsOf(key)) {
    Object* const begin = &places_[set * kWays];
    Object* const found =
        std::find_if(begin, begin + kWays, [key](const Object& o) { return o.key == key; });
    if (found != begin + kWays) return found;
  }
  return nullptr;
}

Object* ObjectTable::FreeIn(size_t set) {
  Object* const begin = &places_[set * kWays];
  Object* const found = std::find_if(begin, begin + kWays, [](auto& o) { return o.key == 0; });
  return found == begin + kWays ? nullptr : found;
}

Object* ObjectTable::Shift(const std::array<size_t, 2>& sets) {
  for (const size_t set : sets) {
    for (size_t i = 0; i < kWays; i++) {
      Object* const object = &places_[set * kWays + i];
      for (const size_t other : SetsOf(object->key)) {
        Object* const free = other == set ? nullptr : FreeIn(other);
        if (free == nullptr) continue;
        *free = std::exchange(*object, Object{});
        return object;
      }
    }
  }
  return nullptr;
}

// A guess that a reader waits for stays.
Object* ObjectTable::Coldest(const std::array<size_t, 2>& sets) {
  Object* coldest = nullptr;
  const auto worth = [](const Object& o) {
    return o.heat + 2 * o.confidence + (o.Is(Object::kResident) ? 4 : 0);
  };
  for (const size_t set : sets) {
    for (size_t i = 0; i < kWays; i++) {
      Object* const object = &places_[set * kWays + i];
      if (object->walk != 0) continue;
      if (coldest == nullptr || worth(*object) < worth(*coldest)) coldest = object;
    }
  }
  return coldest;
}

// nullptr: no place is free, not even by moving another object.
Object* ObjectTable::Put(Key key) {
  const std::array<size_t, 2> sets = SetsOf(key);
  Object* const first = FreeIn(sets[0]);
  Object* const second = FreeIn(sets[1]);
  // Uses the emptier set: both fill from the beginning.
  if (first != nullptr && second != nullptr)
    return first - &places_[sets[0] * kWays] <= second - &places_[sets[1] * kWays] ? first : second;
  if (first != nullptr) return first;
  return second != nullptr ? second : Shift(sets);
}

Object* ObjectTable::Add(Key key, Object* displaced) {
  *displaced = Object{};
  if (Object* const known = Find(key)) return known;
  if (size_ >= places_.size() / 8 * 7 && sets_ < max_sets_) Grow();
  Object* place = Put(key);
  if (place == nullptr && sets_ < max_sets_) {
    Grow();
    place = Put(key);
  }
  if (place == nullptr) {
    place = Coldest(SetsOf(key));
    if (place == nullptr) return nullptr;
    *displaced = *place;
    displaced_++;
    size_--;
  }
  size_++;
  *place = Object{};
  place->key = key;
  return place;
}

void ObjectTable::Remove(Object* object) {
  *object = Object{};
  size_--;
}

// Grows in place, so that there are never two tables: with one more bit of the hash an object stays
// in its set or moves to the set's twin in the new half.
void ObjectTable::Grow() {
  const size_t old_sets = sets_;
  sets_ *= 2;
  places_.resize(sets_ * kWays);
  for (size_t set = 0; set < old_sets; set++) {
    for (size_t way = 0; way < kWays; way++) {
      Object* const object = &places_[set * kWays + way];
      const std::array<size_t, 2> sets = SetsOf(object->key);
      if (object->key == 0 || sets[0] == set || sets[1] == set) continue;
      places_[(set + old_sets) * kWays + way] = std::exchange(*object, Object{});
    }
  }
}

void ObjectTable::Follow(Object* object, Key next) const {
  if (object->next == next) {
    if (object->confidence < Object::kMostConfidence) object->confidence++;
    return;
  }
  if (object->confidence > 0) return;
  // A link that was wrong must be seen twice.
  object->confidence = object->next == 0 ? 1 : 0;
  object->next = next;
}

void ObjectTable::Fail(Object* object, Key instead) const {
  if (object->confidence > 0) object->confidence--;
  if (object->confidence == 0 && instead != 0) object->next = instead;
}

}  // namespace ppc::kvtier
