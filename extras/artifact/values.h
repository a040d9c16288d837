// SPDX-License-Identifier: Apache-2.0
// Owns values that one start of a service passes to the next: names and values, as an engine prints
// or plans them, for its command's environment.  They are in the user's artifact store beside the
// service's bundles, sealed likewise:
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

// NAME=VALUE.  EINVAL: one line with the rules for names and values.
Result<std::pair<std::string, std::string>> ReadValue(const std::string& text);
// Letters, digits and _; refuses names that select programs to load or their search paths.
Status CheckValueName(std::string_view name);

// Empty if nothing was kept.  EKEYREJECTED: sealed with another key file, or changed.
Result<Values> LoadValues(const Store& store, const std::string& service_id);
// Replaces the kept values; empty removes them.  E2BIG: too many.
Status SaveValues(const Store& store, const std::string& service_id, const Values& values);

}  // namespace ppc::artifact

#endif  // PPC_EXTRAS_ARTIFACT_VALUES_H_
