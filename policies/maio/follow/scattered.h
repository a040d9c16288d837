// SPDX-License-Identifier: Apache-2.0
//
// Which files of a template are read in small pieces, here and there: the memory image of a virtual
// machine, mapped and touched as its programs need it.  No position in them says how far a reader
// is, a page is needed again at any time, and each piece costs the disk an answer.  So they are
// loaded as small files are: in the order of the recording, many at once, and kept.
#ifndef POLICIES_MAIO_FOLLOW_SCATTERED_H_
#define POLICIES_MAIO_FOLLOW_SCATTERED_H_

#include <cstdint>
#include <unordered_map>
#include <utility>
#include <vector>

#include "policies/maio/template/template.h"

namespace ppc::maio {

// By the place of a file in the template.  Never a model whose layout is known, nor a small file.
std::vector<bool> ScatteredFiles(const Template& t);

// What is read of one cell of a file is loaded when the first of it is needed, neighbours together:
// a disk gives some pages more as fast as the one that was asked for.
class Cells {
 public:
  static constexpr uint64_t kPages = 64;    // a bit for each
  static constexpr uint64_t kGapPages = 8;  // read over

  Cells(const Template& t, const std::vector<bool>& is_scattered);
  // Calls add(extent) for what is read of the cells of an extent that no earlier one has met.
  template <typename Add>
  void ForEachNew(const Extent& e, Add add) {
    for (uint64_t cell = e.page / kPages; cell * kPages < e.page + e.pages; cell++) {
      uint64_t& pages = pages_[KeyOf(e.file, cell)];
      while (pages != 0) {
        const auto [first, end] = TakeRun(&pages);
        add(Extent{e.file, cell * kPages + first, end - first});
      }
    }
  }

 private:
  static_assert(kMaxFileBytes / kPage / kPages <= 1ull << 40 && kMaxFiles <= 1u << 16);
  static uint64_t KeyOf(uint32_t file, uint64_t cell) { return uint64_t{file} << 40 | cell; }
  static std::pair<uint64_t, uint64_t> TakeRun(uint64_t* pages);

  std::unordered_map<uint64_t, uint64_t> pages_;  // of a cell, that are read and not listed
};

}  // namespace ppc::maio

#endif  // POLICIES_MAIO_FOLLOW_SCATTERED_H_
