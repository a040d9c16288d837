// SPDX-License-Identifier: Apache-2.0
// Owns which directories engines keep the state of a start-up in, as their own variables say.
#ifndef PPC_EXTRAS_ARTIFACT_ROOTS_H_
#define PPC_EXTRAS_ARTIFACT_ROOTS_H_

#include <functional>
#include <string>
#include <vector>

#include "daemon/base/result.h"
#include "extras/artifact/manifest.h"

namespace ppc::artifact {

// The value of a variable, "" where there is none.
using Environment = std::function<std::string(const std::string& name)>;
Environment OwnEnvironment();

// vllm, inductor, inductor-headers, triton, flashinfer, deepgemm, cuda, as far as HOME or their
// variables name them.
std::vector<Root> DefaultRoots(const Environment& environment);

// The defaults, and over them each NAME=DIR; without a DIR that root is left out.
Result<std::vector<Root>> RootsWith(const Environment& environment,
                                    const std::vector<std::string>& given);

}  // namespace ppc::artifact

#endif  // PPC_EXTRAS_ARTIFACT_ROOTS_H_
