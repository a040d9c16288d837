// SPDX-License-Identifier: Apache-2.0
// Owns reading the clocks.
#ifndef PPC_DAEMON_BASE_CLOCK_H_
#define PPC_DAEMON_BASE_CLOCK_H_

#include <cstdint>

namespace ppc {

inline constexpr uint64_t kNsPerMs = 1000 * 1000;
inline constexpr uint64_t kNsPerSec = 1000 * kNsPerMs;

uint64_t MonotonicNs();  // CLOCK_MONOTONIC
uint64_t BootNs();       // CLOCK_BOOTTIME, of process starts in /proc

}  // namespace ppc

#endif  // PPC_DAEMON_BASE_CLOCK_H_
