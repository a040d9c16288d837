// SPDX-License-Identifier: Apache-2.0
#include "extras/xllm/registrations.h"

#include <array>
#include <cerrno>
#include <charconv>
#include <optional>
#include <set>
#include <utility>

#include "daemon/base/clock.h"
#include "daemon/base/json.h"
#include "extras/etcd/etcd.h"

namespace ppc::ctl::xllm {
namespace {

// Other keys with the prefix XLLM: are caches, loads and the service's own processes.
constexpr std::array kRoles = {"XLLM:DEFAULT:", "XLLM:PREFILL:", "XLLM:DECODE:", "XLLM:MIX:"};
constexpr uint64_t kMostSeconds = 86400;

std::string PrefixOf(const std::string& name_space) {
  const size_t first = name_space.find_first_not_of('/');
  if (first == std::string::npos) return "";
  return "/" + name_space.substr(first, name_space.find_last_not_of('/') - first + 1) + "/";
}

std::string EtcdText(const Json& object, const char* key) {
  const Json& member = JsonMember(object, key);
  return member.is_string() ? member.get<std::string>() : "";
}

}  // namespace

Registrations::Registrations(Ask ask, const std::string& name_space)
    : ask_(std::move(ask)), prefix_(PrefixOf(name_space)) {}

Result<std::vector<Registrations::Seen>> Registrations::List() const {
  std::vector<Seen> all;
  for (const char* role : kRoles) {
    const std::string first = prefix_ + role;
    std::string behind = first;
    behind.back()++;
    const Result<Json> json =
        ask_("/v3/kv/range", {{"key", Base64(first)}, {"range_end", Base64(behind)}});
    if (!json) return json.error();
    const Json& list = JsonMember(*json, "kvs");
    if (!json->contains("header") || (!list.is_array() && !list.empty()))
      return Error{EPROTO, "etcd gives no answer of etcd"};
    for (const Json& entry : list) {
      const std::optional<std::string> key = FromBase64(EtcdText(entry, "key"));
      const std::optional<std::string> value = FromBase64(EtcdText(entry, "value"));
      if (!key || !value || !key->starts_with(first))
        return Error{EPROTO, "etcd gives keys that were not asked for"};
      const std::string lease = EtcdText(entry, "lease");
      all.push_back({*key, *value, lease == "0" ? "" : lease, EtcdText(entry, "mod_revision")});
    }
  }
  return all;
}

uint64_t Registrations::SecondsLeft(const std::string& lease) const {
  const Result<Json> json = ask_("/v3/lease/timetolive", {{"ID", lease}});
  if (!json) return 0;
  const std::string text = EtcdText(*json, "TTL");
  uint64_t seconds = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), seconds);
  return error == std::errc() && end == text.data() + text.size() && seconds <= kMostSeconds
             ? seconds
             : 0;
}

Result<Changes> Registrations::Look(uint64_t now_ns) {
  const Result<std::vector<Seen>> seen = List();
  if (!seen) return seen.error();
  Changes changes;
  std::set<std::string> there;
  for (const Seen& one : *seen) {
    there.insert(one.key);
    const std::string name = one.key.substr(one.key.find(':', one.key.find("XLLM:") + 5) + 1);
    const Result<Json> value = ParseJsonObject(one.value, one.key);
    const bool is_one = value && !name.empty() && EtcdText(*value, "name") == name;
    const auto known = known_.find(one.key);
    if (!is_one) {
      std::string& told = complained_[one.key];
      if (std::exchange(told, one.revision) != one.revision || one.revision.empty())
        changes.refused.push_back(one.key + ": is no registration of xLLM; left as it was");
      continue;  // the known instance of this key still lives
    }
    const Instance instance{name, EtcdText(*value, "incarnation_id"),
                            EtcdText(*value, "rpc_address"), one.lease};
    const uint64_t left_s = one.lease.empty() ? 0 : SecondsLeft(one.lease);
    const uint64_t runs_out_ns = now_ns + left_s * kNsPerSec;
    if (known == known_.end() || known->second.instance.incarnation != instance.incarnation)
      changes.appeared.push_back(instance);
    known_[one.key] = {instance, runs_out_ns};
  }
  for (auto it = known_.begin(); it != known_.end();) {
    if (there.contains(it->first)) {
      ++it;
      continue;
    }
    const bool has_run_out = !it->second.instance.lease.empty() && now_ns >= it->second.runs_out_ns;
    (has_run_out ? changes.expired : changes.deregistered).push_back(it->second.instance);
    it = known_.erase(it);
  }
  std::erase_if(complained_, [&](const auto& entry) { return !there.contains(entry.first); });
  return changes;
}

}  // namespace ppc::ctl::xllm
