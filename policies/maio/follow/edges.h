// SPDX-License-Identifier: Apache-2.0
//
// Where extents of a template begin and end, by file and page.  The largest model has two million
// edges: they are sorted a window at a time, at the price of going through the packed extents once
// a window, and never stand all at once.
//
// Threads: a value.
#ifndef POLICIES_MAIO_FOLLOW_EDGES_H_
#define POLICIES_MAIO_FOLLOW_EDGES_H_

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
  static constexpr size_t kWindow = 1u << 17;  // edges, 16 bytes each; twice as many while sorting

  // Of the files that want() is true for.  The template stays.
  EdgeReader(const Template& t, std::function<bool(uint32_t file)> want, size_t window = kWindow);

  bool Next(Edge* out);

 private:
  struct Counted {
    uint64_t key = 0;  // file, page, end or begin, slot
    uint64_t times = 0;
  };

  void Fill();
  void Keep(uint64_t key);
  void Sort();

  const Template& template_;
  std::vector<bool> wanted_;  // by file
  size_t window_;
  std::vector<Counted> edges_;
  size_t at_ = 0;
  uint64_t from_ = 0;  // keys of the window, [from_, to_)
  uint64_t to_ = 0;
};

}  // namespace ppc::maio

#endif  // POLICIES_MAIO_FOLLOW_EDGES_H_
