// SPDX-License-Identifier: Apache-2.0
// Owns the command line of ppc-runner.
#ifndef PPC_DAEMON_RUNNER_OPTIONS_H_
#define PPC_DAEMON_RUNNER_OPTIONS_H_

#include <string>

#include "daemon/base/result.h"

namespace ppc {

struct RunnerOptions {
  bool is_standalone = false;  // --mount was given: no supervisor
  bool show_help = false;
  bool verbose = false;
  std::string mount;
  std::string backend = "auto";
  std::string policy;
  std::string config = "{}";
  std::string record;
};

Result<RunnerOptions> ParseRunnerOptions(int argc, char** argv);
const char* RunnerUsage();

}  // namespace ppc

#endif  // PPC_DAEMON_RUNNER_OPTIONS_H_
