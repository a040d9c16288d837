// SPDX-License-Identifier: Apache-2.0
// Owns the share of time in which tasks wait for memory, from the kernel's pressure stall counters
// (`some ... total=`), and its effect on the prefetch window.
//
// Each second in which tasks waited more than `share` halves the window, down to an eighth; each in
// which they waited less than half of that doubles it again.
// Threads: the caller locks.
#ifndef PPC_DAEMON_MACHINE_MEMORY_STALL_H_
#define PPC_DAEMON_MACHINE_MEMORY_STALL_H_

#include <cstdint>
#include <string>
#include <vector>

#include "daemon/base/unique_fd.h"

namespace ppc {

// The "some ... total=" of a pressure file, in microseconds; false: it cannot be read.
bool ReadStallTotal(const UniqueFd& fd, uint64_t* us);

class MemoryStall {
 public:
  // Files like /proc/pressure/memory; missing ones (a kernel without PSI) are skipped.  The worst
  // of several counts.
  MemoryStall(const std::vector<std::string>& paths, double share);

  bool IsKnown() const { return !files_.empty(); }
  // Share of the window to use: 1, 1/2, 1/4 or 1/8.  Looks at most once a second.
  double Keep(uint64_t now_ns);

 private:
  struct File {
    UniqueFd fd;
    uint64_t total_us = 0;
  };

  const double share_;
  std::vector<File> files_;
  uint64_t looked_ns_ = 0;
  double keep_ = 1;
};

}  // namespace ppc

#endif  // PPC_DAEMON_MACHINE_MEMORY_STALL_H_
