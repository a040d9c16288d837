// SPDX-License-Identifier: Apache-2.0
// Owns what one start of a service tells the next: names and values, as an engine prints or plans
// them, for the environment of its command.  They lie in the user's store of artifacts beside the
// service's bundles, sealed as these are:
//   values/ID            NAME=VALUE lines and the seal
// Threads: any.
#ifndef PPC_EXTRAS_ARTIFACT_VALUES_H_
#define PPC_EXTRAS_ARTIFACT_VALUES_H_

#include <map>
#include <string>
#include <string_view>
#include <utility>

#include "daemon/base/result.h"
#include "extras/artifact/store.h"

namespace ppc::artifact {

using Values = std::map<std::string, std::string>;

inline constexpr size_t kMaxValues = 64;
inline constexpr size_t kMaxValueName = 64;
inline constexpr size_t kMaxValueBytes = 4096;

// NAME=VALUE.  EINVAL: one line that says what a name or a value may be.
Result<std::pair<std::string, std::string>> ReadValue(const std::string& text);
// Letters, digits and _, and none that says what programs are loaded or where they are looked for.
Status CheckValueName(std::string_view name);

// None where nothing was kept.  EKEYREJECTED: sealed with another key file, or changed.
Result<Values> LoadValues(const Store& store, const std::string& service_id);
// In place of what was kept; without values nothing is.  E2BIG: too many.
Status SaveValues(const Store& store, const std::string& service_id, const Values& values);

}  // namespace ppc::artifact

#endif  // PPC_EXTRAS_ARTIFACT_VALUES_H_
