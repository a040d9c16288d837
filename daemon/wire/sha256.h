// SPDX-License-Identifier: Apache-2.0
// Owns the hash that names services (libmd's).
#ifndef PPC_DAEMON_WIRE_SHA256_H_
#define PPC_DAEMON_WIRE_SHA256_H_

#include <string>
#include <string_view>

namespace ppc::control {

// 64 lower-case hexadecimal digits.
std::string Sha256Hex(std::string_view data);

}  // namespace ppc::control

#endif  // PPC_DAEMON_WIRE_SHA256_H_
