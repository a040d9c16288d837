// SPDX-License-Identifier: Apache-2.0
//
// Templates next to each other: pages of one that the other has too, merging
// the parts of several nodes, and taking changed files from another template.
// Pure functions.
#ifndef POLICIES_MAIO_TEMPLATE_TEMPLATE_COMPARE_H_
#define POLICIES_MAIO_TEMPLATE_TEMPLATE_COMPARE_H_

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
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

  uint64_t bytes() const;
  uint64_t CommonBytes(const PageSet& other) const;

 private:
  using Ranges = std::vector<std::pair<uint64_t, uint64_t>>;
  void Sort() const;

  mutable std::map<std::string, Ranges> files_;
  mutable bool sorted_ = true;
};

// JSON: files only in one or changed, bytes per group only in one.  *same: nothing differs but
// times and counters.
std::string DiffJson(const Template& a, const Template& b, bool* same);

// Parts of one service, of several nodes or attempts.  A worker listed by several parts is taken
// from the newest; what belongs to no worker is put together.  An error names two parts' file that
// is not the same file.
std::optional<Template> Merge(std::span<const Template> parts, std::string* error);

// Appends to each group what only fresh lists for it, in the order of fresh; files that are not the
// same in both are left as they are.
void CompleteWith(Template* t, const Template& fresh);

// Takes file (an index) and its extents from fresh, which lists it alone: in each group at the
// place where the first extent of the old one was.  Workers that never read it do not from now on,
// either.  False when a worker that did is missing in fresh.
bool ReplaceFile(Template* t, uint32_t file, const Template& fresh);

}  // namespace ppc::maio

#endif  // POLICIES_MAIO_TEMPLATE_TEMPLATE_COMPARE_H_
