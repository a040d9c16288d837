// SPDX-License-Identifier: Apache-2.0
// The operations on services: start, ready, stop, and the watch on a service's
// root process, whose end stops the service or is its failure.
#include <poll.h>
#include <sys/epoll.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <memory>
#include <optional>
#include <utility>

#include "daemon/base/clock.h"
#include "daemon/base/log.h"
#include "daemon/machine/proc_info.h"
#include "daemon/supervisor/registry.h"
#include "daemon/wire/service_id.h"

namespace ppc::control {
namespace {

// How long a policy may take until whoever starts a service is told that it goes on.
constexpr int64_t kStartWaitMs = 150;
constexpr int64_t kMaxStartWaitMs = 60000;

Json Merge(Json answer, const Json& reply) {
  for (const auto& [key, value] : reply.items()) {
    if (!answer.contains(key)) answer[key] = value;
  }
  return answer;
}

// What a policy without services of its own answers is fine: it works without.
bool IsUnknownToPolicy(const Result<Json>& answer) {
  return !answer && (answer.error().code == EOPNOTSUPP || answer.error().code == ENOSYS);
}

void PassOn(const Result<Json>& answer, const Registry::Reply& reply) {
  if (!answer && !IsUnknownToPolicy(answer)) return reply(ErrorAnswer(answer.error()));
  reply(answer ? Merge(OkAnswer(), *answer) : OkAnswer());
}

Result<std::string> IdOf(const Json& body) {
  if (const auto it = body.find("service_id"); it != body.end()) {
    const std::string id = it->get<std::string>();
    if (Status status = CheckServiceId(id); !status) return status.error();
    return id;
  }
  const auto params = body.find("params");
  if (params == body.end()) {
    return Error{EINVAL, "service_start needs \"service_id\" or \"params\""};
  }
  Result<ServiceName> name = MakeServiceName(*params);
  if (!name) return name.error();
  return name->id;
}

}  // namespace

// Several starts of one service at a time, each with a process of its own, are replicas: the first
// has the name, the others "NAME.2", "NAME.3" and so on, and what was learnt of it.  A process that
// tells of its start again keeps what it has.
std::string Registry::IdBeside(Registration& registration, const Service& service) const {
  std::string free;
  for (size_t replica = 1; replica <= Services::kMaxServices; ++replica) {
    std::string id = service.id + (replica == 1 ? "" : "." + std::to_string(replica));
    const Service* known = registration.services().Find(id);
    const bool is_same = known != nullptr && known->root_pid == service.root_pid &&
                         known->pid_start_ns == service.pid_start_ns;
    if (is_same) return id;
    if (free.empty() && (known == nullptr || !IsRootAlive(registration, *known))) {
      free = std::move(id);
    }
  }
  return free.empty() ? service.id : free;
}

bool Registry::IsRootAlive(const Registration& registration, const Service& service) const {
  const auto watch = roots_.find(registration.handle() + "/" + service.id);
  if (watch == roots_.end()) {
    // A start that the policy has not answered yet.
    return service.is_pending && service.root_pid != 0 &&
           IsSameProcess(options_.roots, service.root_pid, service.pid_start_ns);
  }
  pollfd ended{watch->second.pidfd.Get(), POLLIN, 0};
  return poll(&ended, 1, 0) == 0;
}

Result<Service> Registry::NewService(Registration& registration, const Json& body,
                                     const Peer& peer) {
  const Result<std::string> name = IdOf(body);
  if (!name) return name.error();
  Service service;
  service.id = *name;
  std::optional<HeldProcess> root;
  if (body.contains("pid")) {
    Result<HeldProcess> opened = HeldProcess::Open(body["pid"].get<pid_t>(), options_.roots);
    if (!opened) return opened.error();
    root = *std::move(opened);
    service.root_pid = root->pid();
    service.pid_start_ns = root->StartNs();
    service.id = IdBeside(registration, service);
    if (Status status = CheckServiceId(service.id); !status) return status.error();
  }
  if (Status status = CheckStart(registration, service.id, body, peer); !status) {
    return status.error();
  }
  if (root) {
    if (Status status = CheckRoot(*root, peer); !status) return status.error();
  }
  const Result<uint32_t> number = registration.services().NumberFor(service.id);
  if (!number) return number.error();
  service.number = *number;
  service.message = {{"op", "service_start"}, {"service_id", service.id}, {"service", *number}};
  if (service.id != *name) service.message["template"] = *name;
  for (const char* key : {"params", "xpus", "workers", "node", "nodes", "first_worker", "pid"}) {
    if (body.contains(key)) service.message[key] = body[key];
  }
  if (!service.message.contains("workers") && service.message.contains("xpus")) {
    service.message["workers"] = service.message["xpus"].size();
  }
  if (Status status = Place(service, body, peer); !status) return status.error();
  return service;
}

Status Registry::Place(Service& service, const Json& body, const Peer& peer) const {
  service.owner = Owner{"", peer.uid, !peer.is_admin};
  const bool is_shared = !peer.is_admin && IsSharedCgroup(peer.cgroup);
  if (body.contains("cgroup")) {
    const Result<Cgroups::Group> cgroup = cgroups_.Resolve(body["cgroup"].get<std::string>());
    if (!cgroup) return cgroup.error();
    service.message["cgroup"] = cgroup->directory;
    service.owner.cgroup = cgroup->name;
  } else {
    const pid_t root = service.root_pid != 0 ? service.root_pid : peer.pid;
    const Result<std::string> cgroup =
        peer.is_admin ? cgroups_.OfProcess(root) : Result<std::string>(peer.cgroup);
    if (cgroup) service.message["cgroup"] = *cgroup;
    // Where root tells neither, the group is that of root's shell, whose other processes have no
    // right to the service.
    if (cgroup && (!peer.is_admin || service.root_pid != 0)) service.owner.cgroup = *cgroup;
  }
  // Who pays, only: its process may share the cgroup with anybody.
  const bool tells_process_only = body.contains("pid") && !body.contains("cgroup");
  if (tells_process_only || is_shared) service.message["by_cgroup"] = false;
  return Ok();
}

void Registry::ServiceStart(Json body, const Peer& peer, const Reply& reply) {
  if (body.contains("pid") && body["pid"] == 0) {
    if (peer.pid == 0) {
      return reply(ErrorAnswer(Error{ESRCH,
                                     "\"pid\" 0 is the caller, whom ppcd cannot see from its "
                                     "pid namespace"}));
    }
    body["pid"] = peer.pid;
  }
  const Result<Registration*> found = FindFor(peer, body.at("mount").get<std::string>());
  if (!found) return reply(ErrorAnswer(found.error()));
  Registration& registration = **found;
  Result<Service> asked_for = NewService(registration, body, peer);
  if (!asked_for) return reply(ErrorAnswer(asked_for.error()));
  Service service = *std::move(asked_for);
  service.start = next_start_++;
  service.started_ns = MonotonicNs();
  // Its place is taken now, so that a second service gets another number.
  if (Service* known = registration.services().Find(service.id); known != nullptr) {
    known->start = service.start;
  } else {
    registration.services().Put(service);
  }
  // Shared by the policy's answer and the end of waiting for it: the first replies.
  struct Asked {
    Reply reply;
    EventLoop::TimerId timer{};
  };
  auto asked = std::make_shared<Asked>(Asked{reply});
  const std::string handle = registration.handle();
  const Millis wait{std::min<int64_t>(body.value("wait_ms", kStartWaitMs), kMaxStartWaitMs)};
  asked->timer = loop_.After(wait, [this, asked, service, handle] {
    AcceptServiceStart(handle, service, std::exchange(asked->reply, nullptr));
  });
  registration.Control(service.message, [this, asked, service, handle](const Result<Json>& answer) {
    if (asked->reply) loop_.Cancel(asked->timer);
    FinishServiceStart(handle, service, answer, std::exchange(asked->reply, nullptr));
  });
}

void Registry::AcceptServiceStart(const std::string& handle, const Service& started,
                                  const Reply& reply) {
  Registration* registration = FindByHandle(handle);
  if (registration == nullptr) return reply(ErrorAnswer(Error{ENODEV, "the mount is gone"}));
  Service* known = registration->services().Find(started.id);
  if (registration->IsRunnerStopped()) {
    const bool is_latest = known != nullptr && known->start == started.start;
    if (is_latest)
      StopService(*registration, started.id, "not started", [](const Result<Json>&) {});
    return reply(ErrorAnswer(Error{ETIMEDOUT, "the runner of " + registration->mount().path +
                                                  " is stopped by a signal; kill -CONT it"}));
  }
  if (known != nullptr && known->start == started.start) {
    known->is_starting = true;
    known->is_failed = false;
    if (std::exchange(known->is_pending, false)) known->message = started.message;
    if (started.owner.is_claimed) WatchGroups();
    UnwatchRoot(handle + "/" + started.id);
    known->root_pid = started.root_pid;
    known->pid_start_ns = started.pid_start_ns;
    if (started.root_pid != 0) WatchRoot(handle, started);
    Save(*registration);
  }
  Json ok = OkAnswer();
  ok["mount"] = registration->mount().path;
  ok["service_id"] = started.id;
  ok["service"] = started.number;
  if (started.message.contains("template")) ok["template"] = started.message["template"];
  ok["state"] = "starting";
  reply(std::move(ok));
}

void Registry::FinishServiceStart(const std::string& handle, const Service& started,
                                  const Result<Json>& answer, const Reply& reply) {
  Registration* registration = FindByHandle(handle);
  const bool is_plain = IsUnknownToPolicy(answer);
  if (registration == nullptr) {
    if (!reply) return;
    return reply(ErrorAnswer(answer ? Error{ENODEV, "the mount is gone"} : answer.error()));
  }
  Service* known = registration->services().Find(started.id);
  // Otherwise the runner has been sent its stop, or another start, behind this one.
  const bool is_latest = known != nullptr && known->start == started.start;
  if (!answer && !is_plain) {
    // Of an accepted one the next runner is told again.
    const bool has_ended = answer.error().code == EPIPE || answer.error().code == ENOTCONN;
    if (!reply && has_ended) return;
    const std::string why = "service " + started.id + " was not started: " + answer.error().message;
    if (is_latest) {
      if (!reply) registration->SetLastError(why);
      if (!reply) Log(LogLevel::kError, {registration->mount().path, started.id}, why);
      // One that refuses has stopped what ran under this name before: it is to be gone on both
      // sides.
      StopService(*registration, started.id, "not started", [](const Result<Json>&) {});
    }
    if (reply) reply(ErrorAnswer(answer.error()));
    return;
  }
  Service accepted = started;
  accepted.is_pending = false;
  if (answer) accepted.TakeNumber(*answer);
  if (is_latest) {
    accepted.is_ready = !reply && known->is_ready;  // it may have said so meanwhile
    registration->services().Put(accepted);
    if (reply) UnwatchRoot(handle + "/" + accepted.id);
    if (reply && accepted.root_pid != 0) WatchRoot(handle, accepted);
    if (accepted.owner.is_claimed) WatchGroups();
    Save(*registration);
  }
  if (!reply) return;
  Json ok = OkAnswer();
  ok["mount"] = registration->mount().path;
  ok["service_id"] = accepted.id;
  ok["service"] = accepted.number;
  if (accepted.message.contains("template")) ok["template"] = accepted.message["template"];
  reply(Merge(std::move(ok), is_plain ? Json{{"mode", "none"}} : *answer));
}

// The directory of a message, which has the service that the message names.
Result<Registry::Named> Registry::FindWithService(const Json& body, const Peer& peer) {
  const Result<Registration*> found = FindFor(peer, body.at("mount").get<std::string>());
  if (!found) return found.error();
  const Result<Service*> service =
      FindService(**found, body.at("service_id").get<std::string>(), peer);
  if (!service) return service.error();
  return Named{*found, (*service)->id};
}

void Registry::ServiceReady(const Json& body, const Peer& peer, const Reply& reply) {
  const Result<Named> found = FindWithService(body, peer);
  if (!found) return reply(ErrorAnswer(found.error()));
  const std::string& id = found->id;
  Registration& registration = *found->registration;
  registration.Control(
      {{"op", "service_ready"}, {"service_id", id}},
      [this, id, reply, handle = registration.handle()](const Result<Json>& answer) {
        if (!answer && !IsUnknownToPolicy(answer)) return reply(ErrorAnswer(answer.error()));
        if (Registration* ready = FindByHandle(handle); ready != nullptr) {
          Service* service = ready->services().Find(id);
          if (service != nullptr) NoteReady(*ready, *service, answer ? *answer : Json::object());
          Save(*ready);
        }
        PassOn(answer, reply);
      });
}

// "ready" is what service_ready says.
void Registry::ServicePhase(const Json& body, const Peer& peer, const Reply& reply) {
  const std::string phase = body.at("phase").get<std::string>();
  if (phase == "ready") return ServiceReady(body, peer, reply);
  constexpr std::array kPhases = {"init", "weights", "compile", "graphs"};
  if (std::ranges::find(kPhases, phase) == kPhases.end()) {
    return reply(ErrorAnswer(
        Error{EINVAL, "no phase \"" + phase + "\"; init, weights, compile, graphs or ready"}));
  }
  const Result<Named> found = FindWithService(body, peer);
  if (!found) return reply(ErrorAnswer(found.error()));
  const std::string& id = found->id;
  Registration& registration = *found->registration;
  registration.Control({{"op", "service_phase"}, {"service_id", id}, {"phase", phase}},
                       [reply](const Result<Json>& answer) { PassOn(answer, reply); });
}

void Registry::ServiceStop(const Json& body, const Peer& peer, const Reply& reply) {
  const Result<Named> found = FindWithService(body, peer);
  if (!found) return reply(ErrorAnswer(found.error()));
  const std::string& id = found->id;
  Registration& registration = *found->registration;
  StopService(registration, id, "asked",
              [reply](const Result<Json>& answer) { PassOn(answer, reply); });
}

// The service is forgotten even if the policy does not answer: it has ended.
void Registry::StopService(Registration& registration, const std::string& id, const char* reason,
                           std::function<void(Result<Json>)> done) {
  UnwatchRoot(registration.handle() + "/" + id);
  registration.services().Remove(id);
  Save(registration);
  registration.Control({{"op", "service_stop"}, {"service_id", id}, {"reason", reason}},
                       std::move(done));
}

void Registry::WatchRoot(const std::string& handle, const Service& service) {
  const std::string key = handle + "/" + service.id;
  RootWatch watch{UniqueFd(static_cast<int>(syscall(SYS_pidfd_open, service.root_pid, 0)))};
  const auto end = [this, handle, id = service.id] { EndOfRoot(handle, id); };
  // The number may have been taken by another process before the pidfd was opened.
  const bool is_same = watch.pidfd.IsValid() &&
                       IsSameProcess(options_.roots, service.root_pid, service.pid_start_ns);
  if (!is_same) {
    loop_.After(Millis(0), end);
    return;
  }
  const int fd = watch.pidfd.Get();
  roots_[key] = std::move(watch);
  if (!loop_.Watch(fd, EPOLLIN, [end](uint32_t) { end(); })) roots_.erase(key);
}

void Registry::UnwatchRoot(const std::string& key) {
  const auto it = roots_.find(key);
  if (it == roots_.end()) return;
  loop_.Unwatch(it->second.pidfd.Get());
  roots_.erase(it);
}

}  // namespace ppc::control
