// SPDX-License-Identifier: Apache-2.0
#include "daemon/base/clock.h"

#include <time.h>

namespace ppc {

uint64_t MonotonicNs() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<uint64_t>(now.tv_sec) * kNsPerSec + static_cast<uint64_t>(now.tv_nsec);
}

}  // namespace ppc
