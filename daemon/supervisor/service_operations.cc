// SPDX-License-Identifier: Apache-2.0
#include "daemon/supervisor/service_operations.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdint>
#include <memory>
#include <utility>

#include "daemon/base/clock.h"
#include "daemon/base/log.h"

namespace ppc::control {
namespace {

void PassOn(const Result<Json>& answer, const Reply& reply) {
  if (!answer && !IsUnknownToPolicy(answer)) return reply(ErrorAnswer(answer.error()));
  reply(answer ? OkAnswer(*answer) : OkAnswer());
}

// How long a policy may take until the caller is told that the start goes on.
constexpr int64_t kStartWaitMs = 150;
constexpr int64_t kMaxStartWaitMs = 60000;

// `more`: of the policy.
Json Started(const Registration& registration, const Service& service, const Json& more) {
  Json ok = OkAnswer(more);
  ok["mount"] = registration.mount().path;
  ok["service_id"] = service.id;
  ok["service"] = service.number;
  if (service.message.contains("template")) ok["template"] = service.message["template"];
  return ok;
}

}  // namespace

ServiceOperations::ServiceOperations(EventLoop& loop, const Options& options,
                                     const Cgroups& cgroups, const Registrations& registrations,
                                     const SavedRegistrations& saved, Monitoring& monitoring)
    : loop_(loop),
      registrations_(registrations),
      saved_(saved),
      monitoring_(monitoring),
      roots_(loop, options.roots,
             [this](const std::string& handle, const std::string& id) {
               ends_.TakeEndOfRoot(handle, id);
             }),
      ends_(loop, registrations, saved, roots_),
      groups_(loop, options.watch_period, cgroups, registrations, ends_),
      new_services_(options.roots, cgroups, registrations, roots_) {}

Result<ServiceOperations::Named> ServiceOperations::Find(const Json& body, const Peer& peer) const {
  const Result<Registration*> found =
      registrations_.FindFor(peer, body.at("mount").get<std::string>());
  if (!found) return found.error();
  const Result<Service*> service = (*found)->services().FindFor(
      peer, body.at("service_id").get<std::string>(), (*found)->mount().path);
  if (!service) return service.error();
  return Named{*found, (*service)->id};
}

void ServiceOperations::Ready(const Json& body, const Peer& peer, const Reply& reply) {
  const Result<Named> found = Find(body, peer);
  if (!found) return reply(ErrorAnswer(found.error()));
  const std::string& id = found->id;
  Registration& registration = *found->registration;
  registration.Control(
      {{"op", "service_ready"}, {"service_id", id}},
      [this, id, reply, handle = registration.handle()](const Result<Json>& answer) {
        if (!answer && !IsUnknownToPolicy(answer)) return reply(ErrorAnswer(answer.error()));
        if (Registration* ready = registrations_.FindByHandle(handle); ready != nullptr) {
          Service* service = ready->services().Find(id);
          if (service != nullptr) {
            NoteReady(ready->mount().path, *service, answer ? *answer : Json::object());
          }
          saved_.Save(*ready, id);
        }
        PassOn(answer, reply);
      });
}

// A service is ready once, however often it says so.
void ServiceOperations::NoteReady(const std::string& directory, Service& service,
                                  const Json& answer) {
  const bool is_first = !std::exchange(service.is_ready, true);
  const uint64_t began = std::exchange(service.started_ns, 0);
  if (!is_first || began == 0) return;
  const Result<std::string> treatment = JsonString(answer, "treatment", "policy");
  monitoring_.NoteReady(directory, treatment ? *treatment : "policy",
                        static_cast<double>(MonotonicNs() - began) / 1e9);
}

// "ready" is what service_ready says.
void ServiceOperations::Phase(const Json& body, const Peer& peer, const Reply& reply) {
  const std::string phase = body.at("phase").get<std::string>();
  if (phase == "ready") return Ready(body, peer, reply);
  constexpr std::array kPhases = {"init", "weights", "compile", "graphs"};
  if (std::ranges::find(kPhases, phase) == kPhases.end()) {
    return reply(ErrorAnswer(
        Error{EINVAL, "no phase \"" + phase + "\"; init, weights, compile, graphs or ready"}));
  }
  const Result<Named> found = Find(body, peer);
  if (!found) return reply(ErrorAnswer(found.error()));
  found->registration->Control(
      {{"op", "service_phase"}, {"service_id", found->id}, {"phase", phase}},
      [reply](const Result<Json>& answer) { PassOn(answer, reply); });
}

void ServiceOperations::Fail(const Json& body, const Peer& peer, const Reply& reply) {
  const Result<Named> found = Find(body, peer);
  if (!found) return reply(ErrorAnswer(found.error()));
  int64_t wait_s = 0;
  if (body.contains("wait_s")) {
    wait_s = body["wait_s"].get<int64_t>();
    if (wait_s < 1 || wait_s > ServiceEnds::kMostWaitS) {
      return reply(ErrorAnswer(Error{EINVAL, "\"wait_s\" is " + std::to_string(wait_s) + "; 1 to " +
                                                 std::to_string(ServiceEnds::kMostWaitS)}));
    }
  }
  Registration& registration = *found->registration;
  ends_.Fail(registration, *registration.services().Find(found->id), wait_s, reply);
}

void ServiceOperations::Stop(const Json& body, const Peer& peer, const Reply& reply) {
  const Result<Named> found = Find(body, peer);
  if (!found) return reply(ErrorAnswer(found.error()));
  ends_.Stop(*found->registration, found->id, "asked",
             [reply](const Result<Json>& answer) { PassOn(answer, reply); });
}

void ServiceOperations::WatchGroupsOf(const Registration& adopted) {
  if (!adopted.services().Claimed([](const Owner&) { return true; }).empty()) groups_.Begin();
}

void ServiceOperations::WatchRootsOf(Registration& adopted) {
  for (const Service* service : adopted.services().InOrder()) {
    if (service->root_pid != 0) roots_.Watch(adopted.handle(), *service);
  }
}

void ServiceOperations::Leave(Registration& gone) {
  for (const Service* service : gone.services().InOrder()) {
    roots_.Unwatch(gone.handle(), service->id);
  }
}

void ServiceOperations::Start(Json body, const Peer& peer, const Reply& reply) {
  if (body.contains("pid") && body["pid"] == 0) {
    if (peer.pid == 0) {
      return reply(ErrorAnswer(Error{ESRCH,
                                     "\"pid\" 0 is the caller, whom ppcd cannot see from its "
                                     "pid namespace"}));
    }
    body["pid"] = peer.pid;
  }
  const Result<Registration*> found =
      registrations_.FindFor(peer, body.at("mount").get<std::string>());
  if (!found) return reply(ErrorAnswer(found.error()));
  Registration& registration = **found;
  Result<Service> asked_for = new_services_.Make(registration, body, peer);
  if (!asked_for) return reply(ErrorAnswer(asked_for.error()));
  Service service = *std::move(asked_for);
  service.start = registration.services().NextStart();
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
    AcceptStart(handle, service, std::exchange(asked->reply, nullptr));
  });
  registration.Control(service.message, [this, asked, service, handle](const Result<Json>& answer) {
    if (asked->reply) loop_.Cancel(asked->timer);
    FinishStart(handle, service, answer, std::exchange(asked->reply, nullptr));
  });
}

void ServiceOperations::AcceptStart(const std::string& handle, const Service& started,
                                    const Reply& reply) {
  Registration* registration = registrations_.FindByHandle(handle);
  if (registration == nullptr) return reply(ErrorAnswer(Error{ENODEV, "the mount is gone"}));
  Service* known = registration->services().Find(started.id);
  if (registration->IsRunnerStopped()) {
    const bool is_latest = known != nullptr && known->start == started.start;
    if (is_latest) ends_.Stop(*registration, started.id, "not started");
    return reply(ErrorAnswer(Error{ETIMEDOUT, "the runner of " + registration->mount().path +
                                                  " is stopped by a signal; kill -CONT it"}));
  }
  if (known != nullptr && known->start == started.start) {
    known->is_starting = true;
    known->is_failed = false;
    if (std::exchange(known->is_pending, false)) known->message = started.message;
    if (started.owner.is_claimed) groups_.Begin();
    roots_.Unwatch(handle, started.id);
    known->root_pid = started.root_pid;
    known->pid_start_ns = started.pid_start_ns;
    if (started.root_pid != 0) roots_.Watch(handle, started);
    saved_.Save(*registration, started.id);
  }
  reply(Started(*registration, started, {{"state", "starting"}}));
}

void ServiceOperations::FinishStart(const std::string& handle, const Service& started,
                                    const Result<Json>& answer, const Reply& reply) {
  Registration* registration = registrations_.FindByHandle(handle);
  const bool is_plain = IsUnknownToPolicy(answer);
  if (registration == nullptr) {
    if (!reply) return;
    return reply(ErrorAnswer(answer ? Error{ENODEV, "the mount is gone"} : answer.error()));
  }
  Service* known = registration->services().Find(started.id);
  // Otherwise the runner has been sent its stop, or another start, behind this one.
  const bool is_latest = known != nullptr && known->start == started.start;
  if (!answer && !is_plain) {
    // The next runner is told of an accepted one again.
    const bool has_ended = answer.error().code == EPIPE || answer.error().code == ENOTCONN;
    if (!reply && has_ended) return;
    const std::string why = "service " + started.id + " was not started: " + answer.error().message;
    if (is_latest) {
      if (!reply) registration->SetLastError(why);
      if (!reply) Log(LogLevel::kError, {registration->mount().path, started.id}, why);
      // One that refuses has stopped what ran under this name before: it is to be gone on both
      // sides.
      ends_.Stop(*registration, started.id, "not started");
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
    if (reply) roots_.Unwatch(handle, accepted.id);
    if (reply && accepted.root_pid != 0) roots_.Watch(handle, accepted);
    if (accepted.owner.is_claimed) groups_.Begin();
    saved_.Save(*registration, started.id);
  }
  if (!reply) return;
  reply(Started(*registration, accepted, is_plain ? Json{{"mode", "none"}} : *answer));
}

}  // namespace ppc::control
