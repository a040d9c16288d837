// SPDX-License-Identifier: Apache-2.0
#include "daemon/control/registry.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "daemon/base/clock.h"
#include "daemon/base/log.h"
#include "daemon/control/service_id.h"

namespace ppc::control {
namespace {

// A field that ParseRequest has found to be text.
const std::string& Text(const Json& body, const char* key) {
  return body.at(key).get_ref<const std::string&>();
}

std::string Describe(const PolicyChoice& choice) {
  std::string config = DumpJson(choice.config);
  constexpr size_t kMaxConfigShown = 160;
  if (config.size() > kMaxConfigShown) config = config.substr(0, kMaxConfigShown) + "...";
  return "policy '" + choice.name + "' with config " + config;
}

// The runner is root: members of the socket's group may not choose what files it writes.
Status CheckPaths(const Json& config, const Peer& peer) {
  if (IsPrivileged(peer, geteuid())) return Ok();
  const auto runtime = config.find("runtime");
  if (runtime == config.end() || !runtime->is_object()) return Ok();
  for (const char* key : {"trace_file", "template_dir"}) {
    if (runtime->contains(key)) {
      return Error{EPERM, std::string("only root may set runtime.") + key};
    }
  }
  return Ok();
}

}  // namespace

Registry::Registry(EventLoop& loop, const Options& options, StateDir state)
    : loop_(loop),
      options_(options),
      probe_(options.roots),
      cgroups_(options.roots),
      state_(std::move(state)),
      started_ns_(MonotonicNs()) {}

void Registry::Handle(const Request& request, const Peer& peer, const Reply& reply) {
  const Json& body = request.body;
  if (is_ending_ && request.changes_state) {
    return reply(ErrorAnswer(Error{ESHUTDOWN, "ppcd is shutting down"}));
  }
  if (request.op == "reg_policy") return RegPolicy(body, peer, reply);
  if (request.op == "rm_policy") return RmPolicy(body, reply);
  if (request.op == "service_start") return ServiceStart(body, peer.pid, reply);
  if (request.op == "service_ready") return ServiceReady(body, reply);
  if (request.op == "service_stop") return ServiceStop(body, reply);
  if (request.op == "policy") return PolicyMessage(body, reply);
  if (request.op == "list") return List(reply);
  if (request.op == "status") return ShowStatus(body, reply);
  Json answer = OkAnswer();
  if (request.op == "ping") {
    answer["version"] = kVersionText;
    answer["pid"] = getpid();
  } else {  // service_id
    const Result<ServiceName> name = MakeServiceName(body.at("params"));
    if (!name) return reply(ErrorAnswer(name.error()));
    answer["service_id"] = name->id;
    answer["canonical"] = name->canonical;
  }
  reply(std::move(answer));
}

Result<Registration*> Registry::Find(const std::string& path) {
  const Result<MountInfo> mount = probe_.Find(path);
  if (mount) {
    const auto it = registrations_.find(mount->index);
    if (it != registrations_.end() && it->second->mount().node == mount->node) {
      return it->second.get();
    }
    return Error{ENOENT, "no policy is registered on " + mount->path + "; run ppcctl reg_policy " +
                             mount->path + " POLICY"};
  }
  // By name: of a mount that is gone already.
  if (Registration* registration = FindByPath(path, nullptr)) return registration;
  return mount.error();
}

Registration* Registry::FindByPath(const std::string& path, const Registration* but) {
  for (auto& [index, registration] : registrations_) {
    if (registration.get() != but && registration->mount().path == path) return registration.get();
  }
  return nullptr;
}

Registration* Registry::FindByHandle(const std::string& handle) {
  for (auto& [index, registration] : registrations_) {
    if (registration->handle() == handle) return registration.get();
  }
  return nullptr;
}

void Registry::RegPolicy(const Json& body, const Peer& peer, const Reply& reply) {
  const Result<MountInfo> mount = probe_.Find(Text(body, "mount"));
  if (!mount) return reply(ErrorAnswer(mount.error()));
  Result<std::string> path = ResolvePolicy(Text(body, "policy"));
  if (!path) return reply(ErrorAnswer(path.error()));
  PolicyChoice choice{Text(body, "policy"), std::move(path).value(),
                      body.contains("config") ? body.at("config") : Json::object()};
  if (Status status = CheckPaths(choice.config, peer); !status) {
    return reply(ErrorAnswer(status.error()));
  }

  const auto answer = [reply](const Registration& registration, bool is_existing) {
    return [reply, handle = registration.handle(), is_existing](const Status& status) {
      if (!status) return reply(ErrorAnswer(status.error()));
      Json ok = OkAnswer();
      ok["handle"] = handle;
      ok["existing"] = is_existing;
      reply(std::move(ok));
    };
  };
  const auto it = registrations_.find(mount->index);
  if (it == registrations_.end()) {
    Registration& fresh = Add(*mount, std::move(choice));
    return fresh.Start(answer(fresh, false));
  }
  Registration& old = *it->second;
  if (old.state() == Registration::State::kFailed || old.mount().node != mount->node) {
    return Replace(old, body, peer, reply);
  }
  if (old.state() == Registration::State::kDraining) {
    return reply(ErrorAnswer(Error{
        EAGAIN, "the policy of " + mount->path + " is being removed; try again in a moment"}));
  }
  if (old.choice() == choice) return old.WhenStarted(answer(old, true));
  reply(ErrorAnswer(Error{EBUSY, mount->path + " has " + Describe(old.choice()) +
                                     "; run ppcctl rm_policy " + mount->path + " first"}));
}

void Registry::Replace(Registration& old, const Json& body, const Peer& peer, const Reply& reply) {
  old.Remove([this, body, peer, reply](const Status&) {
    loop_.After(Millis(0), [this, body, peer, reply] { RegPolicy(body, peer, reply); });
  });
}

Registration& Registry::Add(const MountInfo& mount, PolicyChoice choice) {
  const unsigned index = mount.index;
  const std::string handle = "ppc" + std::to_string(index) + "." + std::to_string(next_handle_++);
  Registration::Callbacks callbacks;
  callbacks.on_change = [this, index] {
    const auto it = registrations_.find(index);
    if (it != registrations_.end()) Save(*it->second);
  };
  callbacks.on_gone = [this, index, handle] {
    if (const Registration* gone = FindByHandle(handle); gone != nullptr && !is_ending_) {
      Forget(*gone);
    }
    loop_.After(Millis(0), [this, index, handle] { Drop(index, handle); });
  };
  auto registration =
      std::make_unique<Registration>(Registration::Environment{loop_, options_, probe_, cgroups_},
                                     mount, std::move(choice), handle, std::move(callbacks));
  return *(registrations_[index] = std::move(registration));
}

void Registry::Drop(unsigned index, const std::string& handle) {
  const auto it = registrations_.find(index);
  if (it == registrations_.end() || it->second->handle() != handle) return;
  for (Service* service : it->second->services().InOrder()) {
    UnwatchRoot(handle + "/" + service->id);
  }
  registrations_.erase(it);
  if (is_ending_ && registrations_.empty() && on_empty_) on_empty_();
}

void Registry::RmPolicy(const Json& body, const Reply& reply) {
  const Result<Registration*> found = Find(Text(body, "mount"));
  if (!found) return reply(ErrorAnswer(found.error()));
  (*found)->Remove(
      [reply](const Status& status) { reply(status ? OkAnswer() : ErrorAnswer(status.error())); });
}

void Registry::PolicyMessage(const Json& body, const Reply& reply) {
  const Result<Registration*> found = Find(Text(body, "mount"));
  if (!found) return reply(ErrorAnswer(found.error()));
  const Result<std::string> op = JsonString(body.at("message"), "op", "");
  if (!op || op->empty()) {
    return reply(ErrorAnswer(Error{EINVAL, "\"message\" must have \"op\""}));
  }
  if (op->starts_with("service_")) {
    return reply(ErrorAnswer(Error{EINVAL, "send " + *op + " as an operation of its own"}));
  }
  (*found)->Control(body.at("message"), [reply](const Result<Json>& answer) {
    if (!answer) return reply(ErrorAnswer(answer.error()));
    Json ok = OkAnswer();
    ok["reply"] = *answer;
    reply(std::move(ok));
  });
}

Json Registry::NativeMounts() const {
  Json list = Json::array();
  for (const MountInfo& mount : probe_.All()) {
    if (registrations_.contains(mount.index)) continue;
    list.push_back({{"mount", mount.path},
                    {"device", "/dev/ppc" + std::to_string(mount.index)},
                    {"policy", nullptr},
                    {"state", "native"}});
  }
  return list;
}

void Registry::List(const Reply& reply) {
  Json list = Json::array();
  for (const auto& [index, registration] : registrations_) {
    list.push_back({{"mount", registration->mount().path},
                    {"policy", registration->choice().name},
                    {"state", registration->ShownState()}});
  }
  for (Json& native : NativeMounts()) list.push_back(std::move(native));
  Json answer = OkAnswer();
  answer["mounts"] = std::move(list);
  reply(std::move(answer));
}

Json Registry::DescribeDaemon() const {
  return {{"version", kVersionText},
          {"pid", getpid()},
          {"uptime_s", (MonotonicNs() - started_ns_) / kNsPerSec},
          {"socket", options_.socket},
          {"state_dir", options_.state_dir},
          {"template_dir", options_.template_dir}};
}

void Registry::ShowStatus(const Json& body, const Reply& reply) {
  struct Gathered {
    Json mounts = Json::array();
    size_t missing = 1;  // one for the loop below
  };
  auto gathered = std::make_shared<Gathered>();
  const auto finish_one = [gathered, reply, daemon = DescribeDaemon()] {
    if (--gathered->missing > 0) return;
    Json answer = OkAnswer();
    answer["daemon"] = daemon;
    answer["mounts"] = std::move(gathered->mounts);
    reply(std::move(answer));
  };
  Registration* only = nullptr;
  if (body.contains("mount")) {
    const Result<Registration*> found = Find(Text(body, "mount"));
    if (found) {
      only = *found;
    } else {
      const Result<MountInfo> mount = probe_.Find(Text(body, "mount"));
      if (!mount) return reply(ErrorAnswer(mount.error()));
      gathered->mounts.push_back({{"mount", mount->path},
                                  {"policy", nullptr},
                                  {"state", "native"},
                                  {"kernel", probe_.Statistics(*mount)}});
      return finish_one();
    }
  }
  for (auto& [index, registration] : registrations_) {
    if (only != nullptr && registration.get() != only) continue;
    ++gathered->missing;
    registration->Describe([gathered, finish_one](Json description) {
      gathered->mounts.push_back(std::move(description));
      finish_one();
    });
  }
  if (only == nullptr) {
    for (Json& native : NativeMounts()) gathered->mounts.push_back(std::move(native));
  }
  finish_one();
}

}  // namespace ppc::control
