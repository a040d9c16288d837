// SPDX-License-Identifier: Apache-2.0
// Keys and values as the JSON gateway of etcd takes and gives them.
// Threads: pure functions, any thread.
#ifndef PPC_DAEMON_NET_BASE64_H_
#define PPC_DAEMON_NET_BASE64_H_

#include <optional>
#include <string>
#include <string_view>

namespace ppc {

std::string Base64(std::string_view text);
// nullopt: it is not.
std::optional<std::string> FromBase64(std::string_view text);

}  // namespace ppc

#endif  // PPC_DAEMON_NET_BASE64_H_
