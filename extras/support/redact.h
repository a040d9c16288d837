// SPDX-License-Identifier: Apache-2.0
// Owns taking secrets out of what leaves the machine: values that are named like one or look like
// one.  Paths of models stay.
// Threads: pure functions, any thread.
#ifndef PPC_EXTRAS_SUPPORT_REDACT_H_
#define PPC_EXTRAS_SUPPORT_REDACT_H_

#include <string>

#include "daemon/base/json.h"

namespace ppc::ctl {

inline constexpr const char* kRedacted = "(left out)";

// Members whose name says token, key, password, ... lose their value, and every text is looked
// through.  `count` is raised by one for each.
Json WithoutSecrets(const Json& value, size_t* count);

// Line by line: "api_key=...", "--hf-token ...", "Bearer ...", users' names and passwords in
// addresses, and what begins as well-known tokens do.  What of a line is behind its 4096th
// character goes.
std::string WithoutSecrets(const std::string& text, size_t* count);

}  // namespace ppc::ctl

#endif  // PPC_EXTRAS_SUPPORT_REDACT_H_
