// SPDX-License-Identifier: Apache-2.0
//
// A set of the groups of a layout, by their slots.
#ifndef POLICIES_MAIO_FOLLOW_GROUP_SET_H_
#define POLICIES_MAIO_FOLLOW_GROUP_SET_H_

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>

#include "policies/maio/base/names.h"

namespace ppc::maio {

class GroupSet {
 public:
  // Those below `count`.
  static GroupSet Below(uint32_t count) {
    GroupSet all;
    for (uint32_t g = 0; g < count; g++) all.Add(g);
    return all;
  }
  static GroupSet Of(uint32_t group) {
    GroupSet one;
    one.Add(group);
    return one;
  }

  void Add(uint32_t group) { WordOf(group) |= BitOf(group); }
  void Remove(uint32_t group) { WordOf(group) &= ~BitOf(group); }
  bool Has(uint32_t group) const { return (words_[group / 64] & BitOf(group)) != 0; }
  bool empty() const { return *this == GroupSet(); }
  // Of one that is not empty.
  uint32_t First() const {
    uint32_t word = 0;
    while (words_[word] == 0) word++;
    return word * 64 + static_cast<uint32_t>(std::countr_zero(words_[word]));
  }
  bool IsOne() const { return !empty() && *this == Of(First()); }
  bool IsWithin(const GroupSet& other) const {
    for (size_t i = 0; i < kWords; i++) {
      if ((words_[i] & ~other.words_[i]) != 0) return false;
    }
    return true;
  }
  // Calls see(group) for each, in order.
  template <typename See>
  void ForEach(See see) const {
    for (size_t i = 0; i < kWords; i++) {
      for (uint64_t left = words_[i]; left != 0; left &= left - 1)
        see(static_cast<uint32_t>(i * 64) + static_cast<uint32_t>(std::countr_zero(left)));
    }
  }
  GroupSet& operator|=(const GroupSet& other) {
    for (size_t i = 0; i < kWords; i++) words_[i] |= other.words_[i];
    return *this;
  }
  friend GroupSet operator|(GroupSet a, const GroupSet& b) { return a |= b; }
  bool operator==(const GroupSet&) const = default;

  struct Hash {
    size_t operator()(const GroupSet& set) const {
      uint64_t sum = 0;
      for (const uint64_t word : set.words_)
        sum = (std::rotl(sum, 5) ^ word) * 0x9e3779b97f4a7c15ull;
      return sum;
    }
  };

 private:
  static constexpr size_t kWords = kMaxGroups / 64;
  static_assert(kMaxGroups % 64 == 0);

  uint64_t& WordOf(uint32_t group) { return words_[group / 64]; }
  static uint64_t BitOf(uint32_t group) { return uint64_t{1} << group % 64; }

  std::array<uint64_t, kWords> words_ = {};
};

}  // namespace ppc::maio

#endif  // POLICIES_MAIO_FOLLOW_GROUP_SET_H_
