// SPDX-License-Identifier: Apache-2.0
// Asks an etcd through its JSON gateway.
// Threads: any; each request has a connection of its own.
#ifndef PPC_EXTRAS_ETCD_ETCD_H_
#define PPC_EXTRAS_ETCD_ETCD_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "daemon/base/json.h"
#include "daemon/base/result.h"

namespace ppc {

struct EtcdPlace {
  std::string address;  // http://HOST:PORT
  std::string prefix;   // of keys; ends with a slash
};

// "http://HOST:PORT[/PREFIX]", or https; nullopt: it is not.
std::optional<EtcdPlace> SplitEtcdUrl(const std::string& url, const std::string& usual_prefix);

// `path` as "/v3/kv/range".  Everything takes at most timeout_ms.  ETIMEDOUT, EIO (no connection,
// or it refuses), EINVAL (no JSON object), ENOSYS (no libcurl); one line that names the URL.
Result<Json> AskEtcd(const std::string& address, const std::string& path, const Json& request,
                     uint32_t timeout_ms);

// Keys and values as the JSON gateway of etcd takes and gives them.
// Threads: pure functions, any thread.

std::string Base64(std::string_view text);
// nullopt: it is not.
std::optional<std::string> FromBase64(std::string_view text);

}  // namespace ppc

#endif  // PPC_EXTRAS_ETCD_ETCD_H_
