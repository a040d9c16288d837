// SPDX-License-Identifier: Apache-2.0
// ppc-runner --mount MNT --policy POLICY: a runner without ppcd, for authors of policies.
#include <cstdio>

#include "daemon/base/json.h"
#include "daemon/base/log.h"
#include "daemon/runner/session.h"
#include "daemon/wire/exit_codes.h"
#include "extras/standalone/options.h"

namespace ppc {

int RunStandalone(std::span<char* const> arguments) {
  const Result<RunnerOptions> options = ParseRunnerOptions(arguments);
  if (!options) {
    std::fprintf(stderr, "ppc-runner: %s\n", options.error().message.c_str());
    return kExitUsage;
  }
  if (!options->text.empty()) {
    std::fputs(options->text.c_str(), stdout);
    return kExitStopped;
  }
  if (!options->is_standalone) {
    std::fputs(cli::Help(RunnerProgram()).c_str(), stderr);
    return kExitUsage;
  }
  Session session(options->verbose ? LogLevel::kDebug : LogLevel::kInfo);
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

}  // namespace ppc
