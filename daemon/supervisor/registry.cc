// SPDX-License-Identifier: Apache-2.0
#include "daemon/supervisor/registry.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "daemon/base/clock.h"
#include "daemon/base/files.h"
#include "daemon/base/log.h"
#include "daemon/machine/host_memory.h"
#include "daemon/machine/mount_table.h"
#include "daemon/wire/service_id.h"

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

Error ShutDown() { return {ESHUTDOWN, "ppcd is shutting down"}; }

// By path: not as they were registered, or their runners have answered.
Json InOrder(Json mounts) {
  std::sort(mounts.begin(), mounts.end(),
            [](const Json& a, const Json& b) { return Text(a, "mount") < Text(b, "mount"); });
  return mounts;
}

Result<BackendKind> BackendOf(const Json& body) {
  return ParseBackendKind(body.contains("backend") ? Text(body, "backend") : "auto");
}

std::optional<MemoryBroker::Machine> ReadMachine(const SysRoots& roots) {
  const Result<HostMemory> host = ReadHostMemory(roots, {});
  if (!host) return std::nullopt;
  return MemoryBroker::Machine{host->available, host->files};
}

}  // namespace

Registry::Registry(EventLoop& loop, const Options& options, StateDir state)
    : loop_(loop),
      options_(options),
      probe_(options.roots),
      cgroups_(options.roots),
      state_(std::move(state)),
      observers_(loop, options.roots),
      memory_(loop, options.memory_period, [&options] { return ReadMachine(options.roots); }),
      started_ns_(MonotonicNs()),
      is_off_(access(OffMark().c_str(), F_OK) == 0) {
  if (is_off_) Log(LogLevel::kWarning, "PPC is off (" + OffMark() + "); ppcctl on");
}

void Registry::Handle(const Request& request, const Peer& peer, const Reply& reply) {
  const Json& body = request.body;
  if (is_ending_ && request.changes_state) return reply(ErrorAnswer(ShutDown()));
  if (request.op == "off") return SwitchOff(reply);
  if (request.op == "on") return SwitchOn(reply);
  if (is_off_ && request.changes_state) return HandleWhileOff(request, reply);
  if (request.op == "reg_policy") return RegPolicy(body, reply);
  if (request.op == "rm_policy") return RmPolicy(body, reply);
  if (request.op == "service_start") return ServiceStart(body, peer, reply);
  if (request.op == "service_ready") return ServiceReady(body, peer, reply);
  if (request.op == "service_phase") return ServicePhase(body, peer, reply);
  if (request.op == "service_failed") return ServiceFailed(body, peer, reply);
  if (request.op == "service_stop") return ServiceStop(body, peer, reply);
  if (request.op == "policy") return PolicyMessage(body, reply);
  if (request.op == "list") return List(reply);
  if (request.op == "status") {
    return peer.is_admin ? ShowStatus(body, reply) : ShowOwnStatus(body, peer, reply);
  }
  if (request.op == "log") return ShowLog(body, reply);
  if (request.op == "metrics") return ShowMetrics(body, reply);
  if (request.op == "node_state") return TakeNodeState(body, reply);
  Json answer = OkAnswer();
  if (request.op == "ping") {
    answer["version"] = kVersionText;
    answer["pid"] = getpid();
    answer["rights"] = peer.is_admin ? "admin" : "service";
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
    const auto it = registrations_.find(mount->Key());
    if (it != registrations_.end() && it->second->mount().IsSame(*mount)) return it->second.get();
    // The directory below a mount that came later.
    const auto plain = registrations_.find(mount->path);
    if (plain != registrations_.end()) return plain->second.get();
    return NotRegistered(mount->path);
  }
  // By name: a directory, or a mount that is gone already.
  if (Registration* registration = FindByPath(NormalPath(path), nullptr)) return registration;
  if (mount.error().code != ENODEV) return mount.error();
  return NotRegistered(NormalPath(path));
}

Registration* Registry::FindByPath(const std::string& path, const Registration* but) {
  for (auto& [key, registration] : registrations_) {
    if (registration.get() != but && registration->mount().path == path) return registration.get();
  }
  return nullptr;
}

Registration* Registry::FindByHandle(const std::string& handle) {
  for (auto& [key, registration] : registrations_) {
    if (registration->handle() == handle) return registration.get();
  }
  return nullptr;
}

Status Registry::CheckBackends(const std::string& path, BackendKind kind) {
  const Registration* old = FindByPath(NormalPath(path), nullptr);
  if (old == nullptr || old->Serves(kind) || old->state() == Registration::State::kFailed ||
      old->state() == Registration::State::kDraining || !probe_.IsThere(old->mount())) {
    return Ok();
  }
  return Error{EBUSY, old->mount().path + " has policy '" + old->choice().name + "' on backend " +
                          old->Backend() + ", not " + BackendName(kind) +
                          "; run ppcctl rm_policy " + old->mount().path + " first"};
}

// Two policies would load and drop the same pages.
Status Registry::CheckOverlap(const MountInfo& mount) const {
  for (const auto& [key, registration] : registrations_) {
    const MountInfo& other = registration->mount();
    if (key == mount.Key()) continue;
    const bool is_alias = mount.is_plain && other.is_plain && mount.node != 0 &&
                          mount.node == other.node && mount.dev == other.dev;
    const MountInfo& plain = mount.is_plain ? mount : other;
    const MountInfo& shown = mount.is_plain ? other : mount;
    const bool is_shown = mount.is_plain != other.is_plain && !shown.base.empty() &&
                          (IsBelow(plain.path, shown.base) || IsBelow(shown.base, plain.path));
    if (!is_alias && !is_shown) continue;
    return Error{EBUSY, mount.path + " has files of " + other.path + ", which has policy '" +
                            registration->choice().name + "' on backend " +
                            registration->Backend() + "; run ppcctl rm_policy " + other.path +
                            " first"};
  }
  return Ok();
}

void Registry::RegPolicy(const Json& body, const Reply& reply) {
  const Result<BackendKind> kind = BackendOf(body);
  if (!kind) return reply(ErrorAnswer(kind.error()));
  if (Status status = CheckBackends(Text(body, "mount"), *kind); !status) {
    return reply(ErrorAnswer(status.error()));
  }
  const Result<MountInfo> mount = probe_.FindFor(Text(body, "mount"), *kind);
  if (!mount) return reply(ErrorAnswer(mount.error()));
  if (Status status = CheckOverlap(*mount); !status) return reply(ErrorAnswer(status.error()));
  Result<std::string> path = ResolvePolicy(Text(body, "policy"));
  if (!path) return reply(ErrorAnswer(path.error()));
  PolicyChoice choice{Text(body, "policy"), std::move(path).value(),
                      body.contains("config") ? body.at("config") : Json::object(), *kind};

  const auto answer = [this, reply](const Registration& registration, bool is_existing) {
    return [this, reply, handle = registration.handle(), is_existing](const Status& status) {
      if (!status) return reply(ErrorAnswer(status.error()));
      Json ok = OkAnswer();
      ok["handle"] = handle;
      ok["existing"] = is_existing;
      if (const Registration* started = FindByHandle(handle)) ok["backend"] = started->Backend();
      reply(std::move(ok));
    };
  };
  const auto it = registrations_.find(mount->Key());
  if (it == registrations_.end()) {
    Registration& fresh = Add(*mount, std::move(choice));
    return fresh.Start(answer(fresh, false));
  }
  Registration& old = *it->second;
  if (old.state() == Registration::State::kFailed || !old.mount().IsSame(*mount)) {
    return Replace(old, body, reply);
  }
  if (old.state() == Registration::State::kDraining) {
    return reply(ErrorAnswer(Error{
        EAGAIN, "the policy of " + mount->path + " is being removed; try again in a moment"}));
  }
  if (old.choice().IsSamePolicy(choice)) return old.WhenStarted(answer(old, true));
  reply(ErrorAnswer(Error{EBUSY, mount->path + " has " + Describe(old.choice()) +
                                     "; run ppcctl rm_policy " + mount->path + " first"}));
}

void Registry::Replace(Registration& old, const Json& body, const Reply& reply) {
  old.Remove([this, body, reply](const Status&) {
    loop_.After(Millis(0), [this, body, reply] {
      if (is_ending_ || is_off_) return reply(ErrorAnswer(ShutDown()));
      RegPolicy(body, reply);
    });
  });
}

Registration& Registry::Add(const MountInfo& mount, PolicyChoice choice) {
  const std::string key = mount.Key();
  const std::string device = mount.is_plain ? "dir" : "ppc" + std::to_string(mount.index);
  const std::string handle = device + "." + std::to_string(next_handle_++);
  Registration::Callbacks callbacks;
  callbacks.on_change = [this, key] {
    const auto it = registrations_.find(key);
    if (it != registrations_.end()) Save(*it->second);
  };
  callbacks.on_gone = [this, key, handle] {
    if (const Registration* gone = FindByHandle(handle);
        gone != nullptr && !is_ending_ && !is_off_) {
      Forget(*gone);
    }
    loop_.After(Millis(0), [this, key, handle] { Drop(key, handle); });
  };
  auto registration =
      std::make_unique<Registration>(Registration::Environment{loop_, options_, probe_, cgroups_,
                                                               observers_, memory_, reads_, state_},
                                     mount, std::move(choice), handle, std::move(callbacks));
  return *(registrations_[key] = std::move(registration));
}

void Registry::Drop(const std::string& key, const std::string& handle) {
  const auto it = registrations_.find(key);
  if (it == registrations_.end() || it->second->handle() != handle) return;
  for (Service* service : it->second->services().InOrder()) {
    UnwatchRoot(handle + "/" + service->id);
  }
  registrations_.erase(it);
  if (!registrations_.empty()) return;
  for (const std::function<void()>& told : std::exchange(on_empty_, {})) told();
}

void Registry::RmPolicy(const Json& body, const Reply& reply) {
  const Result<Registration*> found = Find(Text(body, "mount"));
  if (!found && found.error().code == ENOENT) {
    return reply(
        ErrorAnswer(Error{ENOENT, "no policy is registered on " + NormalPath(Text(body, "mount")) +
                                      "; `ppcctl list` shows where one is"}));
  }
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
    if (registrations_.contains(mount.Key())) continue;
    list.push_back(
        {{"mount", mount.path}, {"device", mount.Key()}, {"policy", nullptr}, {"state", "native"}});
  }
  return list;
}

void Registry::List(const Reply& reply) {
  Json list = Json::array();
  for (const auto& [key, registration] : registrations_) {
    list.push_back({{"mount", registration->mount().path},
                    {"backend", registration->Backend()},
                    {"policy", registration->choice().name},
                    {"state", registration->ShownState()}});
  }
  for (Json& native : NativeMounts()) list.push_back(std::move(native));
  for (Json& off : RememberedMounts()) list.push_back(std::move(off));
  Json answer = OkAnswer();
  answer["mounts"] = InOrder(std::move(list));
  reply(std::move(answer));
}

std::string Registry::Summary() const {
  if (is_off_) return "switched off; ppcctl on";
  size_t services = 0, failed = 0;
  for (const auto& [key, registration] : registrations_) {
    services += registration->services().size();
    if (registration->state() == Registration::State::kFailed) ++failed;
  }
  const auto count = [](size_t number, const char* one, const char* many) {
    return std::to_string(number) + " " + (number == 1 ? one : many);
  };
  return count(registrations_.size(), "directory", "directories") + ", " +
         count(services, "service", "services") +
         (failed == 0 ? "" : ", " + count(failed, "policy has failed", "policies have failed"));
}

Json Registry::DescribeDaemon() const {
  return {{"version", kVersionText},
          {"pid", getpid()},
          {"off", is_off_},
          {"uptime_s", (MonotonicNs() - started_ns_) / kNsPerSec},
          {"socket", options_.socket},
          {"service_socket", options_.service_socket},
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
    answer["rights"] = "admin";
    answer["daemon"] = daemon;
    answer["mounts"] = InOrder(std::move(gathered->mounts));
    reply(std::move(answer));
  };
  for (Json& off : RememberedMounts()) {
    if (!body.contains("mount") || off["mount"] == NormalPath(Text(body, "mount")))
      gathered->mounts.push_back(std::move(off));
  }
  if (is_off_ && body.contains("mount") && !gathered->mounts.empty()) return finish_one();
  Registration* only = nullptr;
  if (body.contains("mount")) {
    const Result<Registration*> found = Find(Text(body, "mount"));
    if (found) {
      only = *found;
    } else {
      const Result<MountInfo> mount = probe_.Find(Text(body, "mount"));
      if (!mount) return reply(ErrorAnswer(found.error()));
      gathered->mounts.push_back({{"mount", mount->path},
                                  {"policy", nullptr},
                                  {"state", "native"},
                                  {"kernel", probe_.Statistics(*mount)}});
      return finish_one();
    }
  }
  for (auto& [key, registration] : registrations_) {
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
