// SPDX-License-Identifier: Apache-2.0
// Owns the budget of guesses: bytes loaded in vain stay a small share of the bytes read.
// Threads: one at a time.  Bytes.
#ifndef POLICIES_KVTIER_PREFETCH_BUDGET_H_
#define POLICIES_KVTIER_PREFETCH_BUDGET_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>

namespace ppc::kvtier {

class PrefetchBudget {
 public:
  static constexpr uint64_t kFloorBytes = 1 << 20;
  static constexpr uint64_t kWindowBytes = uint64_t{4} << 30;  // older bytes count half
  static constexpr uint64_t kReadPerWrong = 40;                // 2.5%
  // For a walk that was right this long, while no other guess is allowed.
  static constexpr uint64_t kRunPerGuess = 40;

  void NoteRead(uint64_t bytes) {
    read_ += bytes;
    if (read_ < kWindowBytes) return;
    read_ /= 2;
    wrong_ /= 2;
  }
  void NoteWrong(uint64_t bytes) {
    wrong_ += bytes;
    all_wrong_ += bytes;
  }
  // A wrong guess was read after all.
  void Refund(uint64_t bytes) {
    wrong_ -= std::min(wrong_, bytes);
    all_wrong_ -= std::min(all_wrong_, bytes);
  }
  void NoteRight(uint64_t bytes) { all_right_ += bytes; }
  // The first guess of a walk was right or wrong, loaded or not.
  void NoteFirstGuess(bool is_right) {
    first_ = is_right ? std::min(first_ + 2, kMostFirst) : std::max(first_ - 1, 0);
  }

  // Objects of a walk's first guess.  While first guesses are right, up to a layer's: its reader
  // takes them at once, and would wait for each.
  size_t FirstDepth() const { return first_ >= kSureFirst ? kMostAtFirst : 1; }

  // Bytes to load ahead of a walk's reader, which has followed for `run` bytes.
  uint64_t BytesAhead(uint64_t run) const {
    if (run == 0 && first_ < kLeastFirst) return 0;
    const uint64_t may_be_wrong = kFloorBytes + read_ / kReadPerWrong;
    return wrong_ < may_be_wrong ? may_be_wrong - wrong_ : run / kRunPerGuess;
  }
  uint64_t wrong_bytes() const { return all_wrong_; }
  uint64_t right_bytes() const { return all_right_; }

 private:
  static constexpr int kMostFirst = 16;
  static constexpr int kLeastFirst = 4;
  static constexpr int kSureFirst = 8;
  static constexpr size_t kMostAtFirst = 64;

  uint64_t read_ = 0;
  uint64_t wrong_ = 0;
  uint64_t all_wrong_ = 0;
  uint64_t all_right_ = 0;
  int first_ = 8;
};

}  // namespace ppc::kvtier

#endif  // POLICIES_KVTIER_PREFETCH_BUDGET_H_
