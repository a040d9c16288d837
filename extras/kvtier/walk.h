// SPDX-License-Identifier: Apache-2.0
// Owns one reader's way along a chain: its place, the expected objects, and how far ahead they are
// loaded.  The first guess is one object, or more if first guesses were right; each expected object
// that is read doubles the distance, each other one halves it.
// Computes the distance from measured times.
// Threads: one at a time.
#ifndef POLICIES_KVTIER_WALK_H_
#define POLICIES_KVTIER_WALK_H_

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>

#include "extras/kvtier/object_table.h"
#include "extras/kvtier/prefetch_budget.h"

namespace ppc::kvtier {

// Owns how far ahead of a reader objects must be requested, from four measurements: the time
// between objects while nothing is missing, the time of a load, the size of a burst, and how often
// an object was late.
// Threads: one at a time.
class PrefetchDistance {
 public:
  // The initial pace of the next reader: as fast as this one, from the same device.
  PrefetchDistance ForNext() const;

  // The reader has reached an object; has_waited: for the disk; was_expected: it should have been
  // cached.
  void NoteArrival(uint64_t now_ns, bool has_waited, bool was_expected);
  // An object was loaded, this long after the request.
  void NoteLoad(uint64_t took_ns);

  // Objects.  At least 2, so that one is loaded while the other is read.
  uint64_t Needed() const;
  // Per object; 0: unknown.
  uint64_t step_ns() const { return step_ns_; }
  uint64_t load_ns() const { return load_ns_; }

 private:
  void CountBurst(uint64_t step, bool has_waited);

  // Used while the time of a load is unknown.
  static constexpr uint64_t kUnknown = 64;
  static constexpr uint64_t kMostBurst = 1024;
  static constexpr uint64_t kMostBoost = 1024;
  static constexpr uint64_t kCalm = 4096;  // objects on time before the distance shrinks

  uint64_t arrived_ns_ = 0;
  bool has_waited_ = true;
  bool is_measured_ = false;  // step_ns_ is free of waits
  uint64_t step_ns_ = 0;
  uint64_t load_ns_ = 0;
  uint64_t in_burst_ = 0;  // so far
  uint64_t burst_ = 0;
  uint64_t boost_ = 1;
  uint64_t in_time_ = 0;
  uint64_t since_boost_ = 0;
};

struct Reader {
  int32_t pid = 0;
  int32_t tid = 0;  // 0: all threads of the process are one reader
  uint64_t start_ns = 0;
  bool operator==(const Reader&) const = default;
};

class Walk {
 public:
  static constexpr size_t kMostAhead = 2048;  // objects

  struct Slot {
    Key key = 0;
    uint64_t asked_ns = 0;
    uint64_t done_ns = 0;  // when it was loaded; 0: not yet, or it was cached before
    uint32_t bytes = 0;
    bool is_asked = false;
    bool is_done = false;  // loaded, or cached before
    bool is_read = false;
  };

  // number: index among all walks; depth: objects of the first guess.
  Walk(const Reader& reader, uint32_t service, int32_t xpu, uint8_t number, Key first, size_t depth,
       const PrefetchDistance& distance)
      : reader_(reader),
        service_(service),
        xpu_(xpu),
        number_(number),
        last_(first),
        depth_(depth),
        distance_(distance) {
    recent_[0] = first;
  }

  // An expected object was read; true: its reader had to wait for it.
  bool Read(Object* object, uint64_t now_ns, bool is_miss, ObjectTable* table,
            PrefetchBudget* budget);
  // The successor of all expected objects was read: the reader has read those without an event.
  void Pass(Object* object, uint64_t now_ns, bool is_miss, ObjectTable* table,
            PrefetchBudget* budget);
  // Nothing was expected after the last object, and this one was read.
  void Learn(Object* object, uint64_t now_ns, bool is_miss, ObjectTable* table,
             PrefetchBudget* budget);
  // Whether the object's successor may be expected.
  bool IsReliable(const Object& object) const {
    return object.next != 0 && (object.confidence > 0 || proof_ >= kProof);
  }
  // An unexpected object was read.
  void Stray(Key key, PrefetchBudget* budget);
  // Expects more objects, up to `most_bytes` ahead.
  void Extend(uint64_t most_bytes, ObjectTable* table);
  // Ends all expectations.  is_left: because the reader went elsewhere.
  void End(bool is_left, ObjectTable* table, PrefetchBudget* budget);

  Slot* Find(Key key);
  // Whether it is one of the last objects: its events come late.
  bool WasJustAt(Key key) const { return std::ranges::find(recent_, key) != recent_.end(); }
  // Index of the first expected object ahead of the reader.
  size_t ahead_from() const { return ahead_from_; }
  std::deque<Slot>& slots() { return slots_; }
  size_t ahead() const { return slots_.size() - ahead_from_; }
  uint64_t ahead_bytes() const { return ahead_bytes_; }
  Key last() const { return last_; }
  // The last expected object.
  Key tail() const { return slots_.empty() ? last_ : slots_.back().key; }

  const Reader& reader() const { return reader_; }
  uint32_t service() const { return service_; }
  int32_t xpu() const { return xpu_; }
  uint8_t number() const { return number_; }
  uint64_t run_bytes() const { return run_bytes_; }
  uint32_t strays() const { return strays_; }
  size_t depth() const { return depth_; }
  PrefetchDistance& distance() { return distance_; }
  const PrefetchDistance& distance() const { return distance_; }
  uint64_t read_ns = 0;  // time of its last read
  uint64_t turn = 0;     // order of the last moves among all walks

 private:
  // The observer reports a read when it is over: a reader that waited for a load comes just after
  // it.
  static constexpr uint64_t kJustNowNs = 500'000;
  static constexpr uint32_t kProof = 4;          // of unsure objects, before more are expected
  static constexpr size_t kDisorder = 64;        // objects by which one may come late
  static constexpr size_t kMostGoneAtOnce = 16;  // removed files

  void Forget(const Slot& slot, bool is_wrong, ObjectTable* table, PrefetchBudget* budget) const;
  // An expected object came after `before`, the last in order; nullptr: out of order.
  void Confirm(Object* before, Object* object, ObjectTable* table, PrefetchBudget* budget);
  void Note(Key key) { recent_[next_recent_++ % recent_.size()] = key; }
  void ForgetAll(bool is_wrong, ObjectTable* table, PrefetchBudget* budget);

  const Reader reader_;
  const uint32_t service_;
  const int32_t xpu_;
  const uint8_t number_;
  Key last_;
  std::deque<Slot> slots_;
  size_t ahead_from_ = 0;
  uint64_t ahead_bytes_ = 0;
  size_t depth_;
  uint64_t run_bytes_ = 0;
  uint32_t proof_ = 0;
  uint32_t strays_ = 0;
  Key left_for_ = 0;  // object read instead of the expected one
  std::array<Key, 4> recent_{};
  size_t next_recent_ = 1;
  PrefetchDistance distance_;
};

}  // namespace ppc::kvtier

#endif  // POLICIES_KVTIER_WALK_H_
