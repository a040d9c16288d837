// SPDX-License-Identifier: Apache-2.0
// Owns the parameters that name the service of a command: what changes which bytes it reads.
#ifndef PPC_TOOLS_PPCCTL_MODEL_SERVICE_H_
#define PPC_TOOLS_PPCCTL_MODEL_SERVICE_H_

#include <string>
#include <vector>

#include "daemon/base/json.h"

namespace ppc::ctl {

// A digest of the index and configuration of a model, and of its files' names and sizes; "" = not
// even these can be read.
std::string ModelIdentity(const std::string& model);

// {"model": ..., "identity": ..., "program": ..., "tp": ...} for a service ID; `model` is a real
// path, `words` those of the command.
Json ServiceParams(const std::string& model, const std::vector<std::string>& words);

}  // namespace ppc::ctl

#endif  // PPC_TOOLS_PPCCTL_MODEL_SERVICE_H_
