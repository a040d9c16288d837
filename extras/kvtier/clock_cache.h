// SPDX-License-Identifier: Apache-2.0
// Owns the choice of objects to keep in the page cache: an account of the objects that should be
// there, and a clock hand that goes round the table and drops the coldest.  Each pass of the hand
// lowers an object's heat, so that a once hot object does not stay for ever.
// Threads: one at a time.  Bytes.
#ifndef POLICIES_KVTIER_CLOCK_CACHE_H_
#define POLICIES_KVTIER_CLOCK_CACHE_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "extras/kvtier/object_table.h"
#include "ppc.hpp"

namespace ppc::kvtier {

class ClockCache {
 public:
  static constexpr size_t kMostDisplaced = 4096;

  ClockCache(ObjectTable* table, uint64_t block_bytes) : table_(table), block_bytes_(block_bytes) {}

  // An object was read or loaded, so it is cached; `wanted`: by a reader, not by a guess.
  void NoteCached(Object* object, bool wanted);
  // More of the object is cached than was known.
  void NoteGrown(const Object& object, uint64_t before);
  void NoteGone(Object* object);
  // Its table entry is needed for another object: the next Drop drops its pages, unless it is read
  // before.  Beyond kMostDisplaced, the kernel's reclaim drops the coldest.
  void NoteDisplaced(const Object& object);
  // An attempt to drop the object left it cached.
  void NoteDropFailed(Object* object);

  // Drops the coldest objects, in total `bytes`; spares those that a reader will reach soon.
  void Drop(uint64_t bytes, ppc::IoList* out);

  uint64_t kept_bytes() const { return kept_; }
  uint64_t dropped_bytes() const { return dropped_; }

 private:
  static constexpr size_t kMostSteps = 1 << 18;  // places examined in one call

  void Ask(Key key, uint64_t bytes, ppc::IoList* out);
  void Forget(uint64_t bytes) { kept_ -= std::min(kept_, bytes); }
  uint64_t DropDisplaced(ppc::IoList* out);

  ObjectTable* const table_;
  const uint64_t block_bytes_;
  uint64_t kept_ = 0;
  uint64_t dropped_ = 0;
  size_t hand_ = 0;
  ObjectTable displaced_{kMostDisplaced * sizeof(Object)};  // cached, without an entry in table_
};

}  // namespace ppc::kvtier

#endif  // POLICIES_KVTIER_CLOCK_CACHE_H_
