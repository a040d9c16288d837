// SPDX-License-Identifier: Apache-2.0
// Owns the command line of ppc-runner.
#ifndef PPC_EXTRAS_STANDALONE_OPTIONS_H_
#define PPC_EXTRAS_STANDALONE_OPTIONS_H_

#include <span>
#include <string>

#include "daemon/base/result.h"
#include "daemon/cli/command_line.h"

namespace ppc {

struct RunnerOptions {
  bool is_standalone = false;  // --mount was given: no supervisor
  bool verbose = false;
  std::string mount;
  std::string backend = "auto";
  std::string policy;
  std::string config = "{}";
  std::string record;
  std::string text;  // print this and exit: --help, --version
};

// `arguments`: without the program's name.  EINVAL names the argument.
Result<RunnerOptions> ParseRunnerOptions(std::span<char* const> arguments);
const cli::Program& RunnerProgram();

}  // namespace ppc

#endif  // PPC_EXTRAS_STANDALONE_OPTIONS_H_
