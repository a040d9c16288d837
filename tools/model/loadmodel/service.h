// SPDX-License-Identifier: Apache-2.0
// The service process: init (reads configuration and tokenizer, starts its workers, then a time
// without model reads), load (all workers at once), ready.
// Threads: one, plus one process per worker.
#ifndef PPC_TOOLS_MODEL_LOADMODEL_SERVICE_H_
#define PPC_TOOLS_MODEL_LOADMODEL_SERVICE_H_

#include <string>
#include <vector>

#include "daemon/base/json.h"
#include "daemon/base/result.h"
#include "tools/model/loadmodel/config.h"

namespace ppc::bench {

// args: the command line without the program's name; workers get it too.
// The answer is the report that loadmodel prints.
Result<Json> RunService(const LoadConfig& config, const std::vector<std::string>& args);

}  // namespace ppc::bench

#endif  // PPC_TOOLS_MODEL_LOADMODEL_SERVICE_H_
