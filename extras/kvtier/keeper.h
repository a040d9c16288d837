// SPDX-License-Identifier: Apache-2.0
// Owns what stays in the page cache: an account of the objects that should be there, and a hand
// that goes round the table and takes the coldest.  Each time it passes, an object that was read
// often loses some of its heat, so that what was hot once does not stay for ever. Threads: one at a
// time.  Bytes.
#ifndef POLICIES_KVTIER_KEEPER_H_
#define POLICIES_KVTIER_KEEPER_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "extras/kvtier/object_table.h"
#include "ppc.hpp"

namespace ppc::kvtier {

class Keeper {
 public:
  static constexpr size_t kMostDisplaced = 4096;

  Keeper(ObjectTable* table, uint64_t block_bytes) : table_(table), block_bytes_(block_bytes) {}

  // It was read, and so is there; `wanted`: by a reader, not by a guess.
  void Came(Object* object, bool wanted);
  // More of it than was known.
  void Grew(const Object& object, uint64_t before);
  void Went(Object* object);
  // Its entry in the table is needed for another object: its pages are dropped by the next Drop,
  // unless it is read before.  Beyond kMostDisplaced, the coldest are left to the kernel's
  // reclaim.
  void Displaced(const Object& object);
  // An attempt to drop it left so much of it.
  void Stayed(Object* object);

  // The coldest objects, of so many bytes; those that a reader is about to come to are spared.
  void Drop(uint64_t bytes, ppc::IoList* out);

  uint64_t kept_bytes() const { return kept_; }
  uint64_t dropped_bytes() const { return dropped_; }

 private:
  static constexpr size_t kMostSteps = 1 << 18;  // places looked at in one turn

  void Ask(Key key, uint64_t bytes, ppc::IoList* out);
  void Forget(uint64_t bytes) { kept_ -= std::min(kept_, bytes); }
  uint64_t DropDisplaced(ppc::IoList* out);

  ObjectTable* const table_;
  const uint64_t block_bytes_;
  uint64_t kept_ = 0;
  uint64_t dropped_ = 0;
  size_t hand_ = 0;
  ObjectTable displaced_{kMostDisplaced * sizeof(Object)};  // resident, without an entry in table_
};

}  // namespace ppc::kvtier

#endif  // POLICIES_KVTIER_KEEPER_H_
