// SPDX-License-Identifier: Apache-2.0
#ifndef TESTS_UNIT_POLICIES_PAGE_SET_H_
#define TESTS_UNIT_POLICIES_PAGE_SET_H_

#include <algorithm>
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "policies/maio/template/template.h"

namespace ppc::maio {

// Pages by path.
class PageSet {
 public:
  void Add(const std::string& path, uint64_t first, uint64_t end);
  // All groups, or one.
  void Add(const Template& t);
  void Add(const Template& t, uint32_t group);

  uint64_t bytes() const { return CommonBytes(*this); }
  uint64_t CommonBytes(const PageSet& other) const;

 private:
  using Ranges = std::vector<std::pair<uint64_t, uint64_t>>;
  void Sort() const;

  mutable std::map<std::string, Ranges> files_;
  mutable bool sorted_ = true;
};

inline void PageSet::Add(const std::string& path, uint64_t first, uint64_t end) {
  if (first >= end) return;
  files_[path].emplace_back(first, end);
  sorted_ = false;
}

inline void PageSet::Add(const Template& t, uint32_t group) {
  for (const TemplateGroup& g : t.groups) {
    if (g.id != group) continue;
    for (const Extent& e : g.extents) Add(t.files[e.file].path, e.page, e.page + e.pages);
  }
}

inline void PageSet::Add(const Template& t) {
  for (const TemplateGroup& g : t.groups) Add(t, g.id);
}

inline void PageSet::Sort() const {
  if (sorted_) return;
  for (auto& [path, ranges] : files_) {
    std::sort(ranges.begin(), ranges.end());
    Ranges joined;
    for (auto [first, end] : ranges) {
      if (!joined.empty() && first <= joined.back().second) {
        joined.back().second = std::max(joined.back().second, end);
      } else {
        joined.emplace_back(first, end);
      }
    }
    ranges = std::move(joined);
  }
  sorted_ = true;
}

inline uint64_t PageSet::CommonBytes(const PageSet& other) const {
  Sort();
  other.Sort();
  uint64_t pages = 0;
  for (const auto& [path, ranges] : files_) {
    auto it = other.files_.find(path);
    if (it == other.files_.end()) continue;
    for (size_t a = 0, b = 0; a < ranges.size() && b < it->second.size();) {
      auto [first, end] = ranges[a];
      auto [other_first, other_end] = it->second[b];
      uint64_t from = std::max(first, other_first);
      uint64_t to = std::min(end, other_end);
      if (from < to) pages += to - from;
      (end < other_end ? a : b)++;
    }
  }
  return pages * kPage;
}

}  // namespace ppc::maio

#endif  // TESTS_UNIT_POLICIES_PAGE_SET_H_
