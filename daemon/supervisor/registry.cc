// SPDX-License-Identifier: Apache-2.0
#include "daemon/supervisor/registry.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <memory>
#include <optional>
#include <utility>

#include "daemon/base/log.h"
#include "daemon/machine/host_memory.h"
#include "daemon/machine/mount_table.h"
#include "daemon/supervisor/status_page.h"
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

Result<BackendKind> BackendOf(const Json& body) {
  return ParseBackendKind(body.contains("backend") ? Text(body, "backend") : "auto");
}

Result<PolicyChoice> ChoiceOf(const Json& body, BackendKind kind) {
  Result<std::string> path = ResolvePolicy(Text(body, "policy"));
  if (!path) return path.error();
  return PolicyChoice{Text(body, "policy"), std::move(path).value(),
                      body.contains("config") ? body.at("config") : Json::object(), kind};
}

Json Ping(const Peer& peer) {
  return OkAnswer({{"version", kVersionText},
                   {"pid", getpid()},
                   {"rights", peer.is_admin ? "admin" : "service"}});
}

Json NameService(const Json& body) {
  const Result<ServiceName> name = MakeServiceName(body.at("params"));
  if (!name) return ErrorAnswer(name.error());
  return OkAnswer({{"service_id", name->id}, {"canonical", name->canonical}});
}

std::optional<MemoryBroker::Machine> ReadMachine(const SysRoots& roots) {
  const Result<HostMemory> host = ReadHostMemory(roots, {});
  if (!host) return std::nullopt;
  return MemoryBroker::Machine{host->available, host->files};
}

}  // namespace

Registry::Registry(EventLoop& loop, const Options& options, StateDir state,
                   const MemoryFloor* floor)
    : loop_(loop),
      probe_(options.roots),
      cgroups_(options.roots),
      state_(std::move(state)),
      off_switch_(options.template_dir),
      observers_(loop, options.roots),
      memory_(loop, options.memory_period, [&options] { return ReadMachine(options.roots); }),
      environment_{loop, options, probe_, cgroups_, observers_, memory_, reads_, state_},
      registrations_(probe_, off_switch_),
      saved_(state_, probe_),
      monitoring_(
          MakeMonitoring([this](const Reply& told) { status_.Show(Json::object(), told); })),
      services_(loop, options, cgroups_, registrations_, saved_, *monitoring_),
      status_(options, probe_, off_switch_, registrations_, saved_, floor) {}

void Registry::Handle(const Request& request, const Peer& peer, const Reply& reply) {
  const Json& body = request.body;
  const std::string& op = request.op;
  if (is_ending_ && request.changes_state) return reply(ErrorAnswer(ShutDown()));
  if (op == "off") return SwitchOff(reply);
  if (op == "on") return SwitchOn(reply);
  if (off_switch_.is_off() && request.changes_state) return HandleWhileOff(request, reply);
  if (op == "reg_policy") return RegPolicy(body, reply);
  if (op == "rm_policy") return RmPolicy(body, reply);
  if (op == "service_start") return services_.Start(body, peer, reply);
  if (op == "service_ready") return services_.Ready(body, peer, reply);
  if (op == "service_phase") return services_.Phase(body, peer, reply);
  if (op == "service_failed") return services_.Fail(body, peer, reply);
  if (op == "service_stop") return services_.Stop(body, peer, reply);
  if (op == "policy") return PolicyMessage(body, reply);
  if (op == "list") return status_.List(reply);
  if (op == "status") {
    return peer.is_admin ? status_.Show(body, reply) : status_.ShowOwn(body, peer, reply);
  }
  if (op == "log") return ShowLog(registrations_, body, reply);
  if (op == "metrics") return monitoring_->Show(body, reply);
  if (op == "node_state") {
    monitoring_->TakeNodeState(body);
    return reply(OkAnswer());
  }
  reply(op == "ping" ? Ping(peer) : NameService(body));  // service_id
}

void Registry::RegPolicy(const Json& body, const Reply& reply) {
  const Result<BackendKind> kind = BackendOf(body);
  if (!kind) return reply(ErrorAnswer(kind.error()));
  if (Status status = registrations_.CheckBackends(Text(body, "mount"), *kind); !status) {
    return reply(ErrorAnswer(status.error()));
  }
  const Result<MountInfo> mount = probe_.FindFor(Text(body, "mount"), *kind);
  if (!mount) return reply(ErrorAnswer(mount.error()));
  if (Status status = registrations_.CheckOverlap(*mount); !status) {
    return reply(ErrorAnswer(status.error()));
  }
  Result<PolicyChoice> choice = ChoiceOf(body, *kind);
  if (!choice) return reply(ErrorAnswer(choice.error()));
  const Result<Json> own = ServiceInConfig(choice->config);
  if (!own) return reply(ErrorAnswer(own.error()));

  const auto answer = [this, reply](const Registration& registration, bool is_existing) {
    return [this, reply, handle = registration.handle(), is_existing](const Status& status) {
      if (!status) return reply(ErrorAnswer(status.error()));
      Json ok = OkAnswer();
      ok["handle"] = handle;
      ok["existing"] = is_existing;
      const Registration* started = registrations_.FindByHandle(handle);
      if (started != nullptr) ok["backend"] = started->Backend();
      reply(std::move(ok));
    };
  };
  Registration* old = registrations_.FindByKey(mount->Key());
  if (old == nullptr) {
    Registration& fresh = Add(*mount, *std::move(choice), *own);
    return fresh.Start(answer(fresh, false));
  }
  if (old->state() == Registration::State::kFailed || !old->mount().IsSame(*mount)) {
    return Replace(*old, body, reply);
  }
  if (old->state() == Registration::State::kDraining) {
    return reply(ErrorAnswer(Error{
        EAGAIN, "the policy of " + mount->path + " is being removed; try again in a moment"}));
  }
  if (old->choice().IsSamePolicy(*choice)) return old->WhenStarted(answer(*old, true));
  reply(ErrorAnswer(Error{EBUSY, mount->path + " has " + Describe(old->choice()) +
                                     "; run ppcctl rm_policy " + mount->path + " first"}));
}

void Registry::Replace(Registration& old, const Json& body, const Reply& reply) {
  old.Remove([this, body, reply](const Status&) {
    loop_.After(Millis(0), [this, body, reply] {
      if (is_ending_ || off_switch_.is_off()) return reply(ErrorAnswer(ShutDown()));
      RegPolicy(body, reply);
    });
  });
}

Registration& Registry::Add(const MountInfo& mount, PolicyChoice choice, const Json& own) {
  const std::string key = mount.Key();
  // That none had before it: "dir.1", "ppc0.2".
  const std::string handle = (mount.is_plain ? "dir" : "ppc" + std::to_string(mount.index)) + "." +
                             std::to_string(next_handle_++);
  Registration::Callbacks callbacks;
  callbacks.on_change = [this, key] {
    if (const Registration* changed = registrations_.FindByKey(key)) saved_.Save(*changed);
  };
  callbacks.on_gone = [this, key, handle] {
    if (const Registration* gone = registrations_.FindByHandle(handle);
        gone != nullptr && !is_ending_ && !off_switch_.is_off()) {
      Forget(*gone);
    }
    loop_.After(Millis(0), [this, key, handle] { Drop(key, handle); });
  };
  Registration& added = registrations_.Put(std::make_unique<Registration>(
      environment_, mount, std::move(choice), handle, std::move(callbacks)));
  if (!own.is_null()) added.services().Put(OwnService(own));
  return added;
}

// A mount that is gone may have a successor of the same name, whose file it is then.
void Registry::Forget(const Registration& gone) const {
  const std::string& path = gone.mount().path;
  const Registration* successor = registrations_.FindByPath(path, &gone);
  if (successor != nullptr) return saved_.Save(*successor);
  saved_.Remove(path);
}

void Registry::Drop(const std::string& key, const std::string& handle) {
  Registration* gone = registrations_.FindByKey(key);
  if (gone == nullptr || gone->handle() != handle) return;
  services_.Leave(*gone);
  registrations_.Erase(key);
}

void Registry::RmPolicy(const Json& body, const Reply& reply) {
  const Result<Registration*> found = registrations_.Find(Text(body, "mount"));
  if (!found && found.error().code == ENOENT) {
    return reply(
        ErrorAnswer(Error{ENOENT, "no policy is registered on " + NormalPath(Text(body, "mount")) +
                                      "; `ppcctl list` shows where one is"}));
  }
  if (!found) return reply(ErrorAnswer(found.error()));
  (*found)->Remove(
      [reply](const Status& status) { reply(status ? OkAnswer() : ErrorAnswer(status.error())); });
}

void Registry::PolicyMessage(const Json& body, const Reply& reply) const {
  const Result<Registration*> found = registrations_.Find(Text(body, "mount"));
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

void Registry::SwitchOff(const Reply& reply) {
  Json answer = OkAnswer();
  answer["mark"] = off_switch_.mark();
  answer["directories"] =
      off_switch_.is_off() ? saved_.Describe().size() : registrations_.all().size();
  if (const Status status = off_switch_.TurnOff(); !status) {
    answer["warning"] = status.error().message + "; a reboot switches it on again";
  }
  if (registrations_.all().empty()) return reply(std::move(answer));
  registrations_.WhenEmpty([reply, answer] { reply(answer); });
  for (const auto& [key, registration] : registrations_.all()) {
    saved_.Save(*registration);
    registration->Remove([](const Status&) {});
  }
}

void Registry::SwitchOn(const Reply& reply) {
  if (!registrations_.all().empty() && off_switch_.is_off()) {
    return reply(
        ErrorAnswer(Error{EAGAIN, "policies are still being switched off; try again in a moment"}));
  }
  const Result<bool> was_off = off_switch_.TurnOn();
  if (!was_off) return reply(ErrorAnswer(was_off.error()));
  if (*was_off) Adopt();
  Json answer = OkAnswer();
  answer["directories"] = registrations_.all().size();
  reply(std::move(answer));
}

void Registry::HandleWhileOff(const Request& request, const Reply& reply) const {
  if (request.op == "reg_policy") return RememberPolicy(request.body, reply);
  if (request.op == "rm_policy") {
    const std::string mount = NormalPath(Text(request.body, "mount"));
    const Json saved = saved_.Describe();
    if (std::ranges::none_of(saved, [&](const Json& one) { return one["mount"] == mount; }))
      return reply(ErrorAnswer(Error{ENOENT, "no policy is registered on " + mount}));
    saved_.Remove(mount);
    return reply(OkAnswer());
  }
  reply(ErrorAnswer(OffSwitch::Refusal()));
}

void Registry::RememberPolicy(const Json& body, const Reply& reply) const {
  const Result<BackendKind> kind = BackendOf(body);
  if (!kind) return reply(ErrorAnswer(kind.error()));
  const Result<MountInfo> mount = probe_.FindFor(Text(body, "mount"), *kind);
  if (!mount) return reply(ErrorAnswer(mount.error()));
  const Result<PolicyChoice> choice = ChoiceOf(body, *kind);
  if (!choice) return reply(ErrorAnswer(choice.error()));
  if (const Status saved = saved_.Save(*mount, *choice); !saved) {
    return reply(ErrorAnswer(saved.error()));
  }
  reply(OkAnswer({{"state", "off"}, {"existing", false}}));
}

void Registry::Adopt() {
  if (off_switch_.is_off()) return;
  for (const SavedRegistration& saved : saved_.Load()) AdoptOne(saved);
}

void Registry::AdoptOne(const SavedRegistration& saved) {
  const std::string& path = saved.mount.path;
  if (registrations_.FindByKey(saved.mount.Key()) != nullptr) {
    Log(LogLevel::kInfo, path + " is not adopted: registered already");
    return saved_.Remove(path);
  }
  // One that has run keeps the services that it had, also without its own: that was stopped then.
  const bool has_run = saved.services.is_array();
  const Result<Json> own = ServiceInConfig(saved.choice.config);
  Registration& registration = Add(saved.mount, saved.choice, own && !has_run ? *own : Json());
  registration.services().Restore(saved.services);
  services_.WatchGroupsOf(registration);
  if (saved.failed) return registration.ResumeFailed(*saved.failed);
  Log(LogLevel::kInfo, {path, ""}, "adopted with policy '" + saved.choice.name + "'");
  registration.Resume();
  services_.WatchRootsOf(registration);
}

void Registry::Shutdown(std::function<void()> done) {
  is_ending_ = true;
  services_.End();
  if (registrations_.all().empty()) return done();
  registrations_.WhenEmpty(std::move(done));
  for (const auto& [key, registration] : registrations_.all()) {
    registration->Remove([](const Status&) {});
  }
}

}  // namespace ppc::control
