// SPDX-License-Identifier: Apache-2.0
// Owns what is known of each object: its successor, how sure that is, how often the object was
// read, and whether it should be cached.  24 bytes each, two sets of eight places per key, never
// more than the given bytes: the least sure and least wanted entry is replaced first.
//
// An object is a whole file, or one block of a larger file.
// Threads: one at a time.
#ifndef POLICIES_KVTIER_OBJECT_TABLE_H_
#define POLICIES_KVTIER_OBJECT_TABLE_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace ppc::kvtier {

inline constexpr uint64_t kPage = 4096;

// A file's number and a block in it; 0: none.
using Key = uint64_t;
inline constexpr int kBlockBits = 24;

// 0 if the numbers are too large for a key.
constexpr Key KeyOf(uint64_t file, uint64_t block) {
  if (file >> (64 - kBlockBits) != 0 || block >> kBlockBits != 0) return 0;
  return file << kBlockBits | block;
}
constexpr uint64_t FileOf(Key key) { return key >> kBlockBits; }
constexpr uint64_t BlockOf(Key key) { return key & ((uint64_t{1} << kBlockBits) - 1); }

struct Object {
  static constexpr uint8_t kResident = 1;  // as far as is known
  static constexpr uint8_t kGuessed = 2;   // loaded as a guess, not read since
  static constexpr uint8_t kWrong = 4;     // of the guesses: counted as wrong
  static constexpr uint8_t kGone = 8;      // the file is removed
  static constexpr uint8_t kMostConfidence = 3;
  static constexpr uint8_t kMostHeat = 15;

  Key key = 0;
  Key next = 0;             // its successor; 0: unknown
  uint16_t first_page = 0;  // first page read, in its block
  uint16_t pages = 0;
  uint8_t confidence = 0;  // times that `next` came, less times that it did not; 0: unreliable
  uint8_t heat = 0;        // times read, less aging
  uint8_t state = 0;
  uint8_t walk = 0;  // number of the walk that guessed it + 1; 0: none

  bool Is(uint8_t flag) const { return (state & flag) != 0; }
  void Set(uint8_t flag) { state = static_cast<uint8_t>(state | flag); }
  void Clear(uint8_t flag) { state = static_cast<uint8_t>(state & ~flag); }
  uint64_t bytes() const { return uint64_t{pages} * kPage; }
  void Extend(uint64_t first, uint64_t count);
};
static_assert(sizeof(Object) == 24);

class ObjectTable {
 public:
  // At least one set; bytes beyond a power of two of sets are unused.
  explicit ObjectTable(size_t max_bytes);

  // nullptr: unknown.  Pointers are valid until the next Add.
  Object* Find(Key key);
  // Finds or adds an object; *displaced: the entry replaced for it (key 0: none).  nullptr: guesses
  // that readers wait for take all its places.
  Object* Add(Key key, Object* displaced);
  // Frees the place of an object from Find or Add.
  void Remove(Object* object);

  // `next` followed the object.  A first successor is relied on at once; a different one only when
  // seen again, since the end of a chain has another successor each time.
  void Follow(Object* object, Key next) const;
  // The expected successor did not come, but `instead` did (0: nothing).
  void Fail(Object* object, Key instead) const;

  // Places in any order, for the clock hand; key 0: free.
  Object& At(size_t place) { return places_[place]; }
  size_t places() const { return places_.size(); }
  size_t size() const { return size_; }
  size_t bytes() const { return places_.size() * sizeof(Object); }
  size_t max_bytes() const { return max_sets_ * kWays * sizeof(Object); }
  uint64_t displaced() const { return displaced_; }

 private:
  static constexpr size_t kWays = 8;
  static constexpr size_t kFirstSets = 512;

  std::array<size_t, 2> SetsOf(Key key) const;
  Object* FreeIn(size_t set);
  // Makes room in one of the sets by moving an object to its other set.
  Object* Shift(const std::array<size_t, 2>& sets);
  Object* Coldest(const std::array<size_t, 2>& sets);
  Object* Put(Key key);
  void Grow();

  size_t max_sets_;
  size_t sets_;
  size_t size_ = 0;
  uint64_t displaced_ = 0;
  std::vector<Object> places_;
};

}  // namespace ppc::kvtier

#endif  // POLICIES_KVTIER_OBJECT_TABLE_H_
