// SPDX-License-Identifier: Apache-2.0
//
// What services and their groups are called.
#ifndef POLICIES_MAIO_BASE_NAMES_H_
#define POLICIES_MAIO_BASE_NAMES_H_

#include <cstdint>
#include <string>

namespace ppc::maio {

inline constexpr uint32_t kCommonGroup = 0xffffffff;  // processes bound to no worker
inline constexpr uint32_t kMaxGroups = 512;           // load groups of a node's part of a service
inline constexpr uint32_t kMaxWorkers = 1024;         // of a service, on all its nodes

// A service ID is 4 to 64 of [0-9A-Za-z._-], not starting with a dot.
bool ValidServiceId(const std::string& service_id);

}  // namespace ppc::maio

#endif  // POLICIES_MAIO_BASE_NAMES_H_
