// SPDX-License-Identifier: Apache-2.0
// Owns turning options into the JSON of a request: services, parameters, files.
#ifndef PPC_TOOLS_PPCCTL_SPEC_H_
#define PPC_TOOLS_PPCCTL_SPEC_H_

#include <cstdint>
#include <string>

#include "daemon/base/json.h"
#include "daemon/base/result.h"
#include "tools/ppcctl/args.h"

namespace ppc::ctl {

// A JSON object given as text or as @FILE; `what` names it in errors.
Result<Json> ReadObject(const std::string& text, const std::string& what);

// --params, then --param KEY=VALUE over it.  A value that is written exactly as
// JSON writes a number, true or false is one, so that tp=4 is {"tp":4}.
Result<Json> ReadParams(const Args& args);

// --id, else computed from the parameters, else $PPC_SERVICE_ID.
Result<std::string> ReadServiceId(const Args& args);

// The operand, else $PPC_MOUNT; absolute, and without symbolic links, which ppcd does not follow.
Result<std::string> ReadMount(const Args& args);

// Whether ReadServiceId() has anything to go by.
bool HasServiceId(const Args& args);

// What a service_start request has beside mount, service_id and params.
Result<Json> ReadServiceFields(const Args& args);

// The service_start request.
Result<Json> ReadServiceSpec(const Args& args);

// A whole number from `least` to `most`; `what` names it in the error.
Result<int64_t> ReadWhole(const std::string& what, const std::string& text, int64_t least = 0,
                          int64_t most = INT32_MAX);

// In ms; `option` is named in the error.
Result<unsigned> ReadSeconds(const char* option, const std::string& text);

// --timeout in ms, `fallback_ms` without it.
Result<unsigned> ReadTimeoutMs(const Args& args, unsigned fallback_ms);

}  // namespace ppc::ctl

#endif  // PPC_TOOLS_PPCCTL_SPEC_H_
