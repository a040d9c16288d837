// SPDX-License-Identifier: Apache-2.0
// Pseudo-random file contents that follow from (seed, file, offset) alone: any byte can be checked
// without the rest, no 8-byte word repeats within a file, and no page is all zeros.
// Threads: free functions without state.
#ifndef PPC_TOOLS_MODEL_COMMON_CONTENT_H_
#define PPC_TOOLS_MODEL_COMMON_CONTENT_H_

#include <cstdint>
#include <cstring>
#include <initializer_list>

namespace ppc::bench {

// The finaliser of splitmix64: a bijection, so that distinct positions give distinct words.
inline uint64_t MixWord(uint64_t value) {
  value = (value ^ (value >> 30)) * 0xbf58476d1ce4e5b9ULL;
  value = (value ^ (value >> 27)) * 0x94d049bb133111ebULL;
  return value ^ (value >> 31);
}

inline uint64_t FileKey(uint64_t seed, uint64_t file) {
  return MixWord(seed * 0x9e3779b97f4a7c15ULL + file + 1);
}

// The word number `index` (8 bytes each) of the data section of a file.
inline uint64_t ContentWord(uint64_t key, uint64_t index) { return MixWord(key + index); }

// Fills bytes from word `index` on; a tail shorter than 8 bytes takes the word's first bytes.
inline void FillContent(uint64_t key, uint64_t index, uint8_t* out, uint64_t bytes) {
  const uint64_t words = bytes / 8;
  for (uint64_t i = 0; i < words; ++i) {
    const uint64_t word = ContentWord(key, index + i);
    std::memcpy(out + 8 * i, &word, 8);
  }
  if (bytes % 8 == 0) return;
  const uint64_t tail = ContentWord(key, index + words);
  std::memcpy(out + 8 * words, &tail, bytes % 8);
}

// A running checksum that depends on values and their order, folded into the copy of the data.
//
// Two sums per 8-byte lane, as Fletcher's: a += word, b += a.  Kept in two lanes of a 16-byte
// vector, this is four instructions (load, store, add, add) per 16 bytes, which matters on an
// emulated CPU.  A run of bytes is taken in 16-byte steps and its tail padded with zeros, so the
// result depends on where runs begin and end, not on how a run is cut into pieces, as long as all
// pieces but the last are a multiple of 16 bytes.
// Threads: a value, used by one thread.
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

#endif  // PPC_TOOLS_MODEL_COMMON_CONTENT_H_
