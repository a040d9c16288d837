// SPDX-License-Identifier: Apache-2.0
// In place of extras/standalone, where that is left out.
#include <cstdio>

#include "daemon/runner/session.h"
#include "daemon/wire/exit_codes.h"

namespace ppc {

int RunStandalone(std::span<char* const> /*arguments*/) {
  std::fputs("ppc-runner: ppcd starts it; it was built without extras/standalone\n", stderr);
  return kExitUsage;
}

}  // namespace ppc
