// SPDX-License-Identifier: Apache-2.0
// A running checksum that depends on values and their order, folded into the copy of the data.
//
// Two sums per 8-byte lane, as Fletcher's: a += word, b += a.  Kept in two lanes of a 16-byte
// vector, this is four instructions (load, store, add, add) per 16 bytes, which matters on an
// emulated CPU.  A run of bytes is taken in 16-byte steps and its tail padded with zeros, so the
// result depends on where runs begin and end, not on how a run is cut into pieces, as long as all
// pieces but the last are a multiple of 16 bytes.
// Threads: a value, used by one thread.
#ifndef PPC_TOOLS_MODEL_COMMON_CHECKSUM_H_
#define PPC_TOOLS_MODEL_COMMON_CHECKSUM_H_

#include <cstdint>
#include <cstring>
#include <initializer_list>

#include "tools/model/common/content.h"

namespace ppc::bench {

class Checksum {
 public:
  // Adds bytes from src and copies them to dst.  dst may be misaligned, not overlapping.
  void CopyFold(uint8_t* __restrict dst, const uint8_t* __restrict src, uint64_t bytes) {
    Lanes a = a_, b = b_;
    const uint64_t whole = bytes & ~uint64_t{15};
    uint64_t i = 0;
    for (; i + 64 <= whole; i += 64) {  // four at a time: the loop's own cost counts too
      const auto* from = reinterpret_cast<const Unaligned*>(src + i);
      auto* to = reinterpret_cast<Unaligned*>(dst + i);
      const Lanes w0 = from[0], w1 = from[1], w2 = from[2], w3 = from[3];
      to[0] = w0;
      to[1] = w1;
      to[2] = w2;
      to[3] = w3;
      a += w0;
      b += a;
      a += w1;
      b += a;
      a += w2;
      b += a;
      a += w3;
      b += a;
    }
    for (; i < whole; i += 16) {
      const Lanes word = *reinterpret_cast<const Unaligned*>(src + i);
      *reinterpret_cast<Unaligned*>(dst + i) = word;
      a += word;
      b += a;
    }
    if (whole != bytes) {
      Lanes word{0, 0};
      std::memcpy(&word, src + whole, bytes - whole);
      std::memcpy(dst + whole, src + whole, bytes - whole);
      a += word;
      b += a;
    }
    a_ = a;
    b_ = b;
  }

  uint64_t Value() const {
    uint64_t value = 0x70706331;
    for (uint64_t part : {a_[0], a_[1], b_[0], b_[1]}) value = MixWord(value ^ part);
    return value;
  }

 private:
  using Lanes = uint64_t __attribute__((vector_size(16)));
  using Unaligned = uint64_t __attribute__((vector_size(16), aligned(1), may_alias));
  Lanes a_{1, 1};
  Lanes b_{0, 0};
};

}  // namespace ppc::bench

#endif  // PPC_TOOLS_MODEL_COMMON_CHECKSUM_H_
