// SPDX-License-Identifier: Apache-2.0
// Owns removing secrets from data that leaves the machine: values that are named or look like
// secrets.  Model paths stay.
// Threads: pure functions, any thread.
#ifndef PPC_EXTRAS_SUPPORT_REDACT_H_
#define PPC_EXTRAS_SUPPORT_REDACT_H_

#include <string>

#include "daemon/base/json.h"

namespace ppc::ctl {

inline constexpr const char* kRedacted = "(left out)";

// Removes values of members named token, key, password, ... and searches every text.  Adds the
// number of removals to `count`.
Json WithoutSecrets(const Json& value, size_t* count);

// Line by line: "api_key=...", "--hf-token ...", "Bearer ...", users' names and passwords in
// addresses, and prefixes of well-known tokens.  Cuts each line at 4096 characters.
std::string WithoutSecrets(const std::string& text, size_t* count);

}  // namespace ppc::ctl

#endif  // PPC_EXTRAS_SUPPORT_REDACT_H_
