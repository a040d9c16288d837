// SPDX-License-Identifier: Apache-2.0
#include "daemon/base/clock.h"

#include <time.h>

namespace ppc {

namespace {

uint64_t Read(clockid_t clock) {
  timespec now{};
  clock_gettime(clock, &now);
  return static_cast<uint64_t>(now.tv_sec) * kNsPerSec + static_cast<uint64_t>(now.tv_nsec);
}

}  // namespace

uint64_t MonotonicNs() { return Read(CLOCK_MONOTONIC); }
uint64_t BootNs() { return Read(CLOCK_BOOTTIME); }

}  // namespace ppc
