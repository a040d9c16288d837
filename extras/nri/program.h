// SPDX-License-Identifier: Apache-2.0
// Owns the options and the manual page of ppc-nri.
#ifndef PPC_EXTRAS_NRI_PROGRAM_H_
#define PPC_EXTRAS_NRI_PROGRAM_H_

#include <cstdint>

#include "daemon/cli/command_line.h"

namespace ppc::nri {

inline constexpr const char* kNriSocket = "/var/run/nri/nri.sock";
inline constexpr const char* kTimeoutMs = "1000";
// The runtime gives up a plugin that does not answer for 2 s.
inline constexpr int64_t kMaxTimeoutMs = 1800;

const cli::Program& Program();

}  // namespace ppc::nri

#endif  // PPC_EXTRAS_NRI_PROGRAM_H_
