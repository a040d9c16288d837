// SPDX-License-Identifier: Apache-2.0
//
// A note in memory that outlives the process (ppc_context.checkpoint): two
// halves, of which the older one is written, so that there is always a whole
// one; its checksum tells a whole one from one that a crash cut short, or from
// anything else.  Writing is plain stores.
#ifndef POLICIES_MAIO_FOLLOW_CHECKPOINT_H_
#define POLICIES_MAIO_FOLLOW_CHECKPOINT_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace ppc::maio {

class Checkpoint {
 public:
  Checkpoint() = default;  // keeps nothing
  // memory: 8-byte aligned, not ours; nullptr keeps nothing.
  Checkpoint(void* memory, size_t bytes);

  // What was written last; empty: nothing whole is there.
  std::vector<uint8_t> Read() const;
  // False: it has no room for that much, and keeps what it has.
  bool Write(std::span<const uint8_t> note);

  // Nothing is to be read any more.
  void Clear();

  bool is_kept() const { return memory_ != nullptr; }
  size_t room() const;
  // Memory for notes of up to so many bytes.
  static size_t BytesFor(size_t room);

 private:
  struct Head {
    uint64_t number;  // of the note; 0: none
    uint64_t bytes;
    uint64_t sum;  // of number, bytes and note
  };

  uint8_t* Half(uint64_t number) const { return memory_ + number % 2 * half_bytes_; }
  std::vector<uint8_t> ReadHalf(unsigned half, uint64_t* number) const;

  uint8_t* memory_ = nullptr;
  size_t half_bytes_ = 0;
  uint64_t number_ = 0;  // of the last note
};

}  // namespace ppc::maio

#endif  // POLICIES_MAIO_FOLLOW_CHECKPOINT_H_
