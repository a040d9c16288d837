// SPDX-License-Identifier: Apache-2.0
#include "daemon/net/etcd.h"

#include <cerrno>

#include "daemon/net/http.h"

namespace ppc {

std::optional<EtcdPlace> SplitEtcdUrl(const std::string& url, const std::string& usual_prefix) {
  const bool is_web = url.starts_with("http://") || url.starts_with("https://");
  const size_t host = is_web ? url.find("://") + 3 : 0;
  const size_t path = is_web ? url.find('/', host) : std::string::npos;
  const std::string name = url.substr(host, path == std::string::npos ? path : path - host);
  if (!is_web || name.empty() || name.find_first_of(" @?#\\") != std::string::npos)
    return std::nullopt;
  std::string prefix = path == std::string::npos ? "/" : url.substr(path);
  if (prefix == "/") prefix = usual_prefix;
  if (!prefix.ends_with('/')) prefix += '/';
  return EtcdPlace{url.substr(0, path), prefix};
}

Result<Json> AskEtcd(const std::string& address, const std::string& path, const Json& request,
                     uint32_t timeout_ms) {
  HttpReply reply;
  std::string why;
  const std::string url = address + path;
  const int rc = HttpPost(url, DumpJson(request), timeout_ms, &reply, &why);
  if (rc != 0) return Error{-rc, why.empty() ? url + ": no memory" : why};
  if (reply.status != 200)
    return Error{EIO, url + ": status " + std::to_string(reply.status) + "; is it an etcd 3.4?"};
  Result<Json> json = ParseJsonObject(reply.body, url);
  if (!json) return json.error();
  if (json->contains("error")) return Error{EIO, url + ": it refuses"};
  return json;
}

}  // namespace ppc
