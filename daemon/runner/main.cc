// SPDX-License-Identifier: Apache-2.0
// Owns the program ppc-runner: one process per registered policy.  Wiring only.
// Paper: section 3.2 (CPRT).
#include <fcntl.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <exception>

#include "daemon/backend/cgroup_loader.h"
#include "daemon/base/text.h"
#include "daemon/runner/session.h"
#include "daemon/wire/exit_codes.h"
#include "daemon/xpu/vendor_xpus.h"

namespace ppc {
namespace {

constexpr int kSupervisorFd = 3;

int Main(int argc, char** argv) {
  if (argc == 4 && std::strcmp(argv[1], kServeLoadsFlag) == 0) {
    const int lanes = WholeNumber<int>(argv[2]).value_or(0);
    const int idle_ms = WholeNumber<int>(argv[3]).value_or(0);
    if (lanes > 0 && idle_ms > 0) return ServeLoads(lanes, idle_ms);
    std::fprintf(stderr, "ppc-runner: %s takes two positive numbers\n", kServeLoadsFlag);
    return kExitUsage;
  }
  if (argc == 3 && std::strcmp(argv[1], kAskXpusFlag) == 0) return AskXpuLibrary(argv[2]);
  // ppcd starts it without arguments.
  if (argc == 1 && fcntl(kSupervisorFd, F_SETFD, FD_CLOEXEC) == 0) {
    Session session(LogLevel::kInfo);
    return session.Serve(UniqueFd(kSupervisorFd));
  }
  return RunStandalone({argv + std::min(argc, 1), argv + argc});
}

}  // namespace
}  // namespace ppc

int main(int argc, char** argv) {
  try {
    return ppc::Main(argc, argv);
  } catch (const std::exception& e) {
    std::fprintf(stderr, "ppc-runner: %s\n", e.what());
    return ppc::kExitFailed;
  }
}
