// SPDX-License-Identifier: Apache-2.0
// Pseudo-random file contents that follow from (seed, file, offset) alone: any byte can be checked
// without the rest, no 8-byte word repeats within a file, and no page is all zeros.
// Threads: free functions without state.
#ifndef PPC_TOOLS_MODEL_COMMON_CONTENT_H_
#define PPC_TOOLS_MODEL_COMMON_CONTENT_H_

#include <cstdint>
#include <cstring>

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

}  // namespace ppc::bench

#endif  // PPC_TOOLS_MODEL_COMMON_CONTENT_H_
