// SPDX-License-Identifier: Apache-2.0
// Owns the sizes and times that unit tests count in.
#ifndef PPC_TESTS_UNIT_UNITS_H_
#define PPC_TESTS_UNIT_UNITS_H_

#include <cstdint>

namespace ppc {

inline constexpr uint64_t kMiB = 1 << 20;
inline constexpr uint64_t kMiBPages = 256;
inline constexpr uint64_t kMs = 1000 * 1000;

}  // namespace ppc

#endif  // PPC_TESTS_UNIT_UNITS_H_
