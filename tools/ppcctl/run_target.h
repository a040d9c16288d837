// SPDX-License-Identifier: Apache-2.0
// Owns what `run` and `plan` make of their arguments: where the model is, which service it is.
#ifndef PPC_TOOLS_PPCCTL_RUN_TARGET_H_
#define PPC_TOOLS_PPCCTL_RUN_TARGET_H_

#include <string>
#include <vector>

#include "daemon/base/json.h"
#include "daemon/base/result.h"
#include "tools/ppcctl/args.h"
#include "tools/ppcctl/running_service.h"

namespace ppc::ctl {

// Where the model is and how it came to be known.
struct Target {
  std::string directory;  // "" = none was found
  std::string model;
  bool is_in_words = true;  // else it is learnt, or to be learnt, from what the command opens
};

// By the operand DIR if there is one; else by `words`, those of the command, or by what an extra
// remembers of it.
Result<Target> FindTarget(const Args& args, const std::vector<std::string>& words);
// Some extra remembers what commands opened.
bool LearnsModels();

// The options that can be wrong before anything is looked for.
Result<ServiceRequest> ReadRequest(const Args& args, unsigned default_timeout_ms);

// Completed by what was found; ENOENT: nothing was.
Result<ServiceRequest> RequestFor(ServiceRequest request, const Target& target,
                                  const std::vector<std::string>& words);

// The service's ID where arguments or the command's words give one, else one of the command itself,
// so that its first start and its next have the same.
Result<std::string> RunServiceId(const Json& spec, const Target& target,
                                 const std::vector<std::string>& command,
                                 const std::vector<std::string>& words);

}  // namespace ppc::ctl

#endif  // PPC_TOOLS_PPCCTL_RUN_TARGET_H_
