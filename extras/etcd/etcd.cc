// SPDX-License-Identifier: Apache-2.0
#include "extras/etcd/etcd.h"

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstdint>

#include "extras/etcd/http.h"

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

std::string Base64(std::string_view text) {
  static constexpr char kDigits[] =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string out;
  out.reserve((text.size() + 2) / 3 * 4);
  for (size_t i = 0; i < text.size(); i += 3) {
    const size_t n = std::min<size_t>(3, text.size() - i);
    uint32_t bits = 0;
    for (size_t k = 0; k < 3; k++)
      bits = bits << 8 | (k < n ? static_cast<uint8_t>(text[i + k]) : 0u);
    for (size_t k = 0; k < 4; k++) out += k <= n ? kDigits[bits >> (18 - 6 * k) & 63] : '=';
  }
  return out;
}

std::optional<std::string> FromBase64(std::string_view text) {
  if (text.size() % 4 != 0) return std::nullopt;
  std::string out;
  out.reserve(text.size() / 4 * 3);
  for (size_t i = 0; i < text.size(); i += 4) {
    uint32_t bits = 0;
    size_t n = 0;
    for (size_t k = 0; k < 4; k++) {
      const char c = text[i + k];
      uint32_t digit = 0;
      if (c >= 'A' && c <= 'Z') {
        digit = static_cast<uint32_t>(c - 'A');
      } else if (c >= 'a' && c <= 'z') {
        digit = static_cast<uint32_t>(c - 'a' + 26);
      } else if (c >= '0' && c <= '9') {
        digit = static_cast<uint32_t>(c - '0' + 52);
      } else if (c == '+' || c == '/') {
        digit = c == '+' ? 62 : 63;
      } else if (c != '=' || i + 4 != text.size() || k < 2) {
        return std::nullopt;
      }
      if (c != '=' && n != k) return std::nullopt;  // behind the padding
      if (c != '=') n++;
      bits = bits << 6 | digit;
    }
    for (size_t k = 0; k + 1 < n; k++) out += static_cast<char>(bits >> (16 - 8 * k) & 255);
  }
  return out;
}

}  // namespace ppc
