// SPDX-License-Identifier: Apache-2.0
// Owns the directories in which engines keep start-up state, by the engines' own variables.
#ifndef PPC_EXTRAS_ARTIFACT_ROOTS_H_
#define PPC_EXTRAS_ARTIFACT_ROOTS_H_

#include <functional>
#include <string>
#include <vector>

#include "daemon/base/result.h"
#include "extras/artifact/manifest.h"

namespace ppc::artifact {

// The value of a variable, "" if it is not set.
using Environment = std::function<std::string(const std::string& name)>;
Environment OwnEnvironment();

// vllm, inductor, inductor-headers, triton, flashinfer, deepgemm, cuda, if HOME or their variables
// are set.
std::vector<Root> DefaultRoots(const Environment& environment);

// The defaults, overridden by each NAME=DIR; an empty DIR removes the root.
Result<std::vector<Root>> RootsWith(const Environment& environment,
                                    const std::vector<std::string>& given);

}  // namespace ppc::artifact

#endif  // PPC_EXTRAS_ARTIFACT_ROOTS_H_
