// SPDX-License-Identifier: Apache-2.0
//
// Where extents of a template begin and end, by file and page.  The largest model has two million
// edges: they are sorted a window at a time and never stand all at once.  Of each block of a
// group's extents it is known which edges it has, so that a window goes through few blocks.
//
// Threads: a value.
#ifndef POLICIES_MAIO_TEMPLATE_EDGES_H_
#define POLICIES_MAIO_TEMPLATE_EDGES_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

#include "policies/maio/template/template.h"

namespace ppc::maio {

struct Edge {
  uint32_t file = 0;
  uint64_t page = 0;
  uint32_t slot = 0;  // of the group
  bool is_end = false;
  uint32_t times = 1;  // so many extents of the group
};

class EdgeReader {
 public:
  static constexpr size_t kWindow = 1u << 14;  // edges, 16 bytes each; twice as many while sorting

  // Of the files that want() is true for.  The template stays.
  EdgeReader(const Template& t, std::function<bool(uint32_t file)> want, size_t window = kWindow);

  bool Next(Edge* out);

 private:
  struct Counted {
    uint64_t key = 0;  // file, page, end or begin, slot
    uint64_t times = 0;
  };

  struct Block {
    ExtentList::Iterator first;
    uint32_t slot = 0;
    uint64_t least = ~0ull;  // keys
    uint64_t most = 0;
  };

  uint64_t KeyOf(uint32_t file, uint64_t page, uint64_t slot, bool is_end) const;
  void Index(uint32_t slot);
  void Fill();
  void Collect();
  void Keep(uint64_t key);
  void Sort();

  const Template& template_;
  // Files lie one after the other in the space of keys, by size; one more: their end.
  std::vector<uint64_t> base_;
  std::vector<bool> wanted_;  // by file
  std::vector<Block> blocks_;
  size_t window_;
  std::vector<Counted> edges_;
  size_t at_ = 0;
  uint32_t file_ = 0;  // of the last edge that was given
  uint64_t from_ = 0;  // keys of the window, [from_, to_)
  uint64_t to_ = 0;
  uint64_t span_ = 0;  // of keys that about fill a window
};

}  // namespace ppc::maio

#endif  // POLICIES_MAIO_TEMPLATE_EDGES_H_
