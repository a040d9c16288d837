// SPDX-License-Identifier: Apache-2.0
#include "extras/placement/etcd_lease.h"

#include <algorithm>
#include <cerrno>
#include <utility>

#include "daemon/base/log.h"
#include "extras/etcd/etcd.h"

namespace ppc {
namespace {

// Two renewals may be late or lost.
constexpr uint32_t kBeatsOfLease = 3;

// The gateway encodes 64-bit numbers as text.
std::string TextOf(const Json& json, const char* key) {
  if (!json.is_object()) return "";
  const auto it = json.find(key);
  if (it == json.end()) return "";
  if (it->is_string()) return it->get<std::string>();
  return it->is_number_integer() ? it->dump() : "";
}

}  // namespace

EtcdLease::EtcdLease(Options options) : options_(std::move(options)) {
  thread_ = std::thread([this] { Run(); });
}

EtcdLease::~EtcdLease() {
  {
    const std::lock_guard lock(mutex_);
    is_ending_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

void EtcdLease::Set(Values values) {
  {
    const std::lock_guard lock(mutex_);
    if (values == wanted_) return;
    wanted_ = std::move(values);
    is_new_ = true;
  }
  changed_.notify_all();
}

EtcdLease::State EtcdLease::Read() const {
  const std::lock_guard lock(mutex_);
  return state_;
}

Result<Json> EtcdLease::Ask(const std::string& path, const Json& request) const {
  return AskEtcd(options_.address, path, request, options_.ask_ms);
}

Status EtcdLease::Grant() {
  const Result<Json> reply = Ask("/v3/lease/grant", {{"TTL", options_.lease_s}});
  if (!reply) return reply.error();
  const std::string id = TextOf(*reply, "ID");
  if (id.empty() || id == "0")
    return Error{EBADMSG, options_.address + ": gives a lease without an ID"};
  there_.clear();
  lease_ = id;
  return Ok();
}

// Makes a lease if there is none.  If the lease has expired with all its keys, there is none
// afterwards.
Status EtcdLease::KeepAlive() {
  if (lease_.empty()) return Ok();
  const Result<Json> reply = Ask("/v3/lease/keepalive", {{"ID", lease_}});
  if (!reply) return reply.error();
  const std::string left = TextOf(JsonMember(*reply, "result"), "TTL");
  if (left.empty() || left == "0") lease_.clear();
  return Ok();
}

Status EtcdLease::Turn(const Values& wanted) {
  if (const Status status = KeepAlive(); !status) return status;
  if (lease_.empty()) {
    if (const Status status = Grant(); !status) return status;
  }
  for (const auto& [key, value] : wanted) {
    const auto old = there_.find(key);
    if (old != there_.end() && old->second == value) continue;
    const Result<Json> reply =
        Ask("/v3/kv/put", {{"key", Base64(key)}, {"value", Base64(value)}, {"lease", lease_}});
    if (!reply) {
      lease_.clear();  // it may have expired
      return reply.error();
    }
    there_[key] = value;
  }
  for (auto it = there_.begin(); it != there_.end();) {
    if (wanted.contains(it->first)) {
      ++it;
      continue;
    }
    const Result<Json> reply = Ask("/v3/kv/deleterange", {{"key", Base64(it->first)}});
    if (!reply) return reply.error();
    it = there_.erase(it);
  }
  return Ok();
}

void EtcdLease::Note(const Status& status) {
  {
    const std::lock_guard lock(mutex_);
    state_.is_up = status.ok();
    state_.last_error = status ? "" : status.error().message;
    if (!status) ++state_.failures;
  }
  if (status && was_told_)
    Log(LogLevel::kInfo, "publishing to " + options_.address + " works again");
  if (!status && !was_told_)
    Log(LogLevel::kWarning,
        "cannot publish this node's state; trying again: " + status.error().message);
  was_told_ = !status;
}

void EtcdLease::Run() {
  const std::chrono::milliseconds beat(options_.lease_s * 1000 / kBeatsOfLease);
  const std::chrono::milliseconds first(options_.first_back_off_ms);
  std::chrono::milliseconds back_off = first;
  std::unique_lock lock(mutex_);
  while (!is_ending_) {
    const Values wanted = wanted_;
    is_new_ = false;
    lock.unlock();
    const Status status = Turn(wanted);
    Note(status);
    lock.lock();
    if (status) {
      back_off = first;
      changed_.wait_for(lock, beat, [this] { return is_new_ || is_ending_; });
    } else {
      // A new value does not shorten the pause: the server is away.
      changed_.wait_for(lock, back_off, [this] { return is_ending_; });
      back_off = std::min(back_off * 2, std::chrono::milliseconds(options_.most_back_off_ms));
    }
  }
  const bool is_up = state_.is_up;
  lock.unlock();
  if (is_up && !lease_.empty()) (void)Ask("/v3/lease/revoke", {{"ID", lease_}});
}

}  // namespace ppc
