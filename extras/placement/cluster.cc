// SPDX-License-Identifier: Apache-2.0
#include "extras/placement/cluster.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <optional>

#include "daemon/base/files.h"
#include "daemon/base/unique_fd.h"
#include "extras/etcd/etcd.h"

namespace ppc::ctl {
namespace {

constexpr const char* kNodesPrefix = "nodes/";
constexpr char kBehindSlash = '/' + 1;  // the key behind all keys that begin with "nodes/"
constexpr size_t kMaxFileBytes = 64 << 20;

void Take(const Result<Json>& json, const std::string& what, Cluster* cluster) {
  Result<NodeState> node = json ? NodeFromJson(*json, what) : Result<NodeState>(json.error());
  if (node) {
    cluster->nodes.push_back(*std::move(node));
  } else {
    cluster->refused.push_back(node.error().message);
  }
}

std::optional<std::string> Decoded(const Json& entry, const char* key) {
  const Result<std::string> text = JsonString(entry, key, "");
  return text ? FromBase64(*text) : std::nullopt;
}

}  // namespace

Result<EtcdPlace> ReadEtcdPlace(const std::string& url) {
  const std::string bare = url.starts_with("etcd:") ? url.substr(5) : url;
  std::optional<EtcdPlace> place = SplitEtcdUrl(bare, kUsualClusterPrefix);
  if (!place)
    return Error{EINVAL, "'" + url + "': must be http://HOST:PORT or http://HOST:PORT/PREFIX"};
  return *std::move(place);
}

Result<std::string> NodeKey(const EtcdPlace& place, const std::string& node) {
  if (node.empty() || node.size() > 255 || node.find('/') != std::string::npos)
    return Error{EINVAL, "node '" + node.substr(0, 64) + "': must be 1 to 255 bytes without '/'"};
  return place.prefix + kNodesPrefix + node;
}

Result<Cluster> ClusterInEtcd(const EtcdPlace& place, uint32_t timeout_ms) {
  const std::string url = place.address + "/v3/kv/range";
  const std::string first = place.prefix + kNodesPrefix;
  std::string behind = first;
  behind.back() = kBehindSlash;
  const Result<Json> json =
      AskEtcd(place.address, "/v3/kv/range",
              {{"key", Base64(first)}, {"range_end", Base64(behind)}}, timeout_ms);
  if (!json) return json.error();
  const Json& list = json->contains("kvs") ? (*json)["kvs"] : Json::array();
  // An etcd without nodes returns no list, but has a header.
  if (!list.is_array() || !json->contains("header"))
    return Error{EPROTO, url + ": no answer of etcd"};
  Cluster cluster{.source = "etcd"};
  for (const Json& entry : list) {
    const std::optional<std::string> key = entry.is_object() ? Decoded(entry, "key") : std::nullopt;
    const std::optional<std::string> value =
        entry.is_object() ? Decoded(entry, "value") : std::nullopt;
    if (!key || !value || !key->starts_with(first)) {
      cluster.refused.push_back(url + ": a key or value that is not base64");
      continue;
    }
    const size_t before = cluster.nodes.size();
    Take(ParseJsonObject(*value, *key), *key, &cluster);
    if (cluster.nodes.size() == before || cluster.nodes.back().name == key->substr(first.size()))
      continue;
    cluster.nodes.pop_back();
    cluster.refused.push_back(*key + ": is of another node");
  }
  return cluster;
}

Result<Cluster> ClusterInFiles(const std::vector<std::string>& files) {
  Cluster cluster{.source = "files"};
  for (const std::string& file : files) {
    const Result<std::string> text = ReadFile(file, kMaxFileBytes);
    if (!text) return text.error();
    Take(ParseJsonObject(*text, file), file, &cluster);
  }
  return cluster;
}

Status Remember(const std::string& file, const Cluster& fresh) {
  Json nodes = Json::array();
  for (const NodeState& node : fresh.nodes) nodes.push_back(ToJson(node));
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  const std::string text =
      DumpJson({{"time_s", std::chrono::duration_cast<std::chrono::seconds>(now).count()},
                {"nodes", std::move(nodes)}});
  const std::string temporary = file + "." + std::to_string(getpid());
  {
    const UniqueFd fd(
        open(temporary.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0644));
    if (!fd.IsValid()) return PosixError(temporary, errno);
    const Status written = WriteAll(fd.Get(), text.data(), text.size());
    if (!written) {
      unlink(temporary.c_str());
      return written;
    }
  }
  if (rename(temporary.c_str(), file.c_str()) == 0) return Ok();
  const int code = errno;
  unlink(temporary.c_str());
  return PosixError(file, code);
}

Result<Cluster> Recall(const std::string& file, uint64_t now_s) {
  const Result<std::string> text = ReadFile(file, kMaxFileBytes);
  if (!text) return text.error();
  const Result<Json> json = ParseJsonObject(*text, file);
  if (!json) return json.error();
  const Result<uint64_t> time_s = JsonSize(*json, "time_s", 0);
  if (!time_s) return time_s.error();
  Cluster cluster{.source = "last known"};
  cluster.age_s = now_s - std::min(*time_s, now_s);
  for (const Json& node : JsonMember(*json, "nodes")) Take(node, file, &cluster);
  return cluster;
}

}  // namespace ppc::ctl
