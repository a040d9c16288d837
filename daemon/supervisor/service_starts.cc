// SPDX-License-Identifier: Apache-2.0
#include "daemon/supervisor/service_starts.h"

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <memory>
#include <utility>

#include "daemon/base/clock.h"
#include "daemon/base/log.h"

namespace ppc::control {
namespace {

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

void ServiceStarts::Start(Json body, const Peer& peer, const Reply& reply) {
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
    Accept(handle, service, std::exchange(asked->reply, nullptr));
  });
  registration.Control(service.message, [this, asked, service, handle](const Result<Json>& answer) {
    if (asked->reply) loop_.Cancel(asked->timer);
    Finish(handle, service, answer, std::exchange(asked->reply, nullptr));
  });
}

void ServiceStarts::Accept(const std::string& handle, const Service& started, const Reply& reply) {
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

void ServiceStarts::Finish(const std::string& handle, const Service& started,
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
