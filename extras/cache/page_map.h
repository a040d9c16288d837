// SPDX-License-Identifier: Apache-2.0
// Owns the question "what of this file is in the page cache": through the
// device on a ppc mount, by mincore elsewhere.
#ifndef PPC_EXTRAS_CACHE_PAGE_MAP_H_
#define PPC_EXTRAS_CACHE_PAGE_MAP_H_

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "daemon/base/result.h"

namespace ppc::ctl {

struct PageMap {
  uint64_t size = 0;      // of the file, bytes
  uint64_t resident = 0;  // bytes
  uint64_t dirty = 0;     // device only
  uint64_t mapped = 0;
  bool by_device = false;
  std::map<int, uint64_t> nodes;  // NUMA node -> bytes, device only
  std::vector<bool> pages;

  // Share of resident pages in each of `cells` equal parts.
  std::vector<double> Shares(size_t cells) const;
};

// One character per share (0..1): full to empty blocks, or ASCII where the
// locale has no UTF-8.
std::string Bar(const std::vector<double>& shares, bool is_utf8);

// `wants_device` false: mincore even on a ppc mount.
Result<PageMap> ReadPageMap(const std::string& path, bool wants_device);

}  // namespace ppc::ctl

#endif  // PPC_EXTRAS_CACHE_PAGE_MAP_H_
