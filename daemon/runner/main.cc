// SPDX-License-Identifier: Apache-2.0
// Owns the program ppc-runner: one process per registered policy.  Wiring only.
// Paper: section 3.2 (CPRT).
#include <fcntl.h>
#include <malloc.h>
#include <signal.h>
#include <sys/prctl.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <span>

#include "daemon/backend/cgroup_loader.h"
#include "daemon/base/log.h"
#include "daemon/base/text.h"
#include "daemon/runner/options.h"
#include "daemon/runner/session.h"
#include "daemon/wire/exit_codes.h"
#include "daemon/xpu/vendor_xpus.h"

namespace ppc {
namespace {

constexpr int kSupervisorFd = 3;
// Lines of its log that ppcd can ask for.
constexpr size_t kLogLines = 200;

int Main(int argc, char** argv) {
  if (argc == 4 && std::strcmp(argv[1], kServeLoadsFlag) == 0) {
    const int lanes = WholeNumber<int>(argv[2]).value_or(0);
    const int idle_ms = WholeNumber<int>(argv[3]).value_or(0);
    if (lanes > 0 && idle_ms > 0) return ServeLoads(lanes, idle_ms);
    std::fprintf(stderr, "ppc-runner: %s takes two positive numbers\n", kServeLoadsFlag);
    return kExitUsage;
  }
  if (argc == 3 && std::strcmp(argv[1], kAskXpusFlag) == 0) return AskXpuLibrary(argv[2]);
  const std::span<char* const> arguments(argv, static_cast<size_t>(argc));
  const Result<RunnerOptions> options = ParseRunnerOptions(arguments.subspan(argc > 0 ? 1 : 0));
  if (!options) {
    std::fprintf(stderr, "ppc-runner: %s\n", options.error().message.c_str());
    return kExitUsage;
  }
  if (!options->text.empty()) {
    std::fputs(options->text.c_str(), stdout);
    return kExitStopped;
  }
  SetLog("ppc-runner", options->verbose ? LogLevel::kDebug : LogLevel::kInfo);
  KeepLog(kLogLines);
  signal(SIGPIPE, SIG_IGN);
  // Few arenas: the runner's threads allocate little, and its memory is limited.
  mallopt(M_ARENA_MAX, 2);
  // Large blocks that are needed once, such as a decoded template, return to the system when freed;
  // the default threshold would grow with the first of them.
  mallopt(M_MMAP_THRESHOLD, 128 << 10);
  // With huge pages enabled for all memory, a touched stack would take 2 MiB.
  (void)prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0);
  Session session;
  if (!options->is_standalone) {
    if (fcntl(kSupervisorFd, F_SETFD, FD_CLOEXEC) != 0) {
      std::fputs(cli::Help(RunnerProgram()).c_str(), stderr);
      return kExitUsage;
    }
    return session.Serve(UniqueFd(kSupervisorFd));
  }
  const Result<Json> config = ParseJsonObject(options->config, "--config");
  Status started = config ? Ok() : Status(config.error());
  if (started) {
    session.SetRecord(options->record);
    started = session.Init(Json{{"mount", options->mount},
                                {"backend", options->backend},
                                {"policy", options->policy},
                                {"config", *config}});
  }
  if (!started) {
    Log(LogLevel::kError, started.error().message);
    return kExitFailed;
  }
  return session.RunAlone();
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
