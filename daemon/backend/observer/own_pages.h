// SPDX-License-Identifier: Apache-2.0
// Owns which parts of files are in the page cache because of us: loaded by us, or missed by a
// process that we watch.  Only these may be dropped; pages that a stranger has cached stay.
// Threads: any.
#ifndef PPC_DAEMON_BACKEND_OBSERVER_OWN_PAGES_H_
#define PPC_DAEMON_BACKEND_OBSERVER_OWN_PAGES_H_

#include <cstdint>
#include <mutex>
#include <unordered_map>
#include <utility>
#include <vector>

#include "daemon/backend/observer/discovered_files.h"

namespace ppc {

class OwnPages {
 public:
  static constexpr uint64_t kUnit = 64 << 10;  // the kernel's smallest read-ahead
  static constexpr size_t kMaxFiles = 65536;

  // `discovered` holds the bits of the first units of discovered files; it must outlive this.
  explicit OwnPages(DiscoveredFiles* discovered) : discovered_(discovered) {}

  void Add(uint64_t file, uint64_t offset, uint64_t length);
  // Pages of the range are no longer cached.  The rest of a partly covered unit stays ours.
  void Remove(uint64_t file, uint64_t offset, uint64_t length);
  // Our parts of the range, as (offset, length).
  std::vector<std::pair<uint64_t, uint64_t>> Within(uint64_t file, uint64_t offset,
                                                    uint64_t length) const;
  size_t Size() const;  // files with parts of ours; discovered files only beyond their first units

 private:
  void Mark(uint64_t file, uint64_t first, uint64_t end, bool is_ours);

  DiscoveredFiles* const discovered_;
  mutable std::mutex mutex_;
  std::unordered_map<uint64_t, std::vector<bool>> files_;
};

}  // namespace ppc

#endif  // PPC_DAEMON_BACKEND_OBSERVER_OWN_PAGES_H_
