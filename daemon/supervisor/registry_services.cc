// SPDX-License-Identifier: Apache-2.0
// The operations on services: start, ready, stop, and the watch on a service's
// root process, whose end stops the service.
#include <sys/epoll.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <memory>
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

Result<Json> Registry::StartMessage(Registration& registration, const Json& body, pid_t peer) {
  const Result<std::string> id = IdOf(body);
  if (!id) return id.error();
  const Result<uint32_t> number = registration.services().NumberFor(*id);
  if (!number) return number.error();
  if (body.contains("pid") && !ProcessStartNs(options_.roots, body["pid"].get<pid_t>())) {
    return Error{ESRCH, "process " + DumpJson(body["pid"]) + " does not exist here"};
  }
  Json message{{"op", "service_start"}, {"service_id", *id}, {"service", *number}};
  for (const char* key : {"params", "xpus", "workers", "node", "nodes", "first_worker", "pid"}) {
    if (body.contains(key)) message[key] = body[key];
  }
  if (!message.contains("workers") && message.contains("xpus")) {
    message["workers"] = message["xpus"].size();
  }
  if (body.contains("cgroup")) {
    Result<std::string> cgroup = cgroups_.Resolve(body["cgroup"].get<std::string>());
    if (!cgroup) return cgroup.error();
    message["cgroup"] = *cgroup;
    return message;
  }
  const pid_t root = body.contains("pid") ? body["pid"].get<pid_t>() : peer;
  const Result<std::string> cgroup = cgroups_.OfProcess(root);
  if (cgroup) message["cgroup"] = *cgroup;
  // Who pays, only: its process may share the cgroup with anybody.
  if (body.contains("pid")) message["by_cgroup"] = false;
  return message;
}

void Registry::ServiceStart(Json body, pid_t peer, const Reply& reply) {
  if (body.contains("pid") && body["pid"] == 0) {
    if (peer == 0) {
      return reply(ErrorAnswer(Error{ESRCH,
                                     "\"pid\" 0 is the caller, whom ppcd cannot see from its "
                                     "pid namespace"}));
    }
    body["pid"] = peer;
  }
  const Result<Registration*> found = Find(body.at("mount").get<std::string>());
  if (!found) return reply(ErrorAnswer(found.error()));
  Registration& registration = **found;
  Result<Json> message = StartMessage(registration, body, peer);
  if (!message) return reply(ErrorAnswer(message.error()));

  Service service;
  service.id = message->at("service_id").get<std::string>();
  service.number = message->at("service").get<uint32_t>();
  service.message = *message;
  if (body.contains("pid")) {
    service.root_pid = body["pid"].get<pid_t>();
    service.pid_start_ns = ProcessStartNs(options_.roots, service.root_pid).value_or(0);
  }
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
  registration.Control(*message, [this, asked, service, handle](const Result<Json>& answer) {
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
    if (std::exchange(known->is_pending, false)) known->message = started.message;
    UnwatchRoot(handle + "/" + started.id);
    known->root_pid = started.root_pid;
    known->pid_start_ns = started.pid_start_ns;
    if (started.root_pid != 0) WatchRoot(handle, started);
    Save(*registration);
  }
  Json ok = OkAnswer();
  ok["service_id"] = started.id;
  ok["service"] = started.number;
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
      if (!reply) Log(LogLevel::kError, registration->mount().path + ": " + why);
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
    Save(*registration);
  }
  if (!reply) return;
  Json ok = OkAnswer();
  ok["service_id"] = accepted.id;
  ok["service"] = accepted.number;
  reply(Merge(std::move(ok), is_plain ? Json{{"mode", "none"}} : *answer));
}

void Registry::ServiceReady(const Json& body, const Reply& reply) {
  const Result<Registration*> found = Find(body.at("mount").get<std::string>());
  if (!found) return reply(ErrorAnswer(found.error()));
  const std::string id = body.at("service_id").get<std::string>();
  Registration& registration = **found;
  if (registration.services().Find(id) == nullptr) {
    return reply(ErrorAnswer(Error{
        ENOENT, "service " + id.substr(0, 80) + " was not started on " + registration.mount().path +
                    "; started there: " + registration.services().Names()}));
  }
  registration.Control(
      {{"op", "service_ready"}, {"service_id", id}},
      [this, id, reply, handle = registration.handle()](const Result<Json>& answer) {
        if (!answer && !IsUnknownToPolicy(answer)) return reply(ErrorAnswer(answer.error()));
        if (Registration* ready = FindByHandle(handle); ready != nullptr) {
          Service* service = ready->services().Find(id);
          if (service != nullptr) NoteReady(*ready, *service, answer ? *answer : Json::object());
          Save(*ready);
        }
        reply(answer ? Merge(OkAnswer(), *answer) : OkAnswer());
      });
}

void Registry::ServiceStop(const Json& body, const Reply& reply) {
  const Result<Registration*> found = Find(body.at("mount").get<std::string>());
  if (!found) return reply(ErrorAnswer(found.error()));
  const std::string id = body.at("service_id").get<std::string>();
  Registration& registration = **found;
  if (registration.services().Find(id) == nullptr) {
    return reply(ErrorAnswer(Error{
        ENOENT, "service " + id.substr(0, 80) + " was not started on " + registration.mount().path +
                    "; started there: " + registration.services().Names()}));
  }
  StopService(registration, id, "asked", [reply](const Result<Json>& answer) {
    if (!answer && !IsUnknownToPolicy(answer)) return reply(ErrorAnswer(answer.error()));
    reply(answer ? Merge(OkAnswer(), *answer) : OkAnswer());
  });
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
  const auto stop = [this, handle, id = service.id, pid = service.root_pid] {
    Registration* registration = FindByHandle(handle);
    if (registration == nullptr || registration->services().Find(id) == nullptr) {
      return UnwatchRoot(handle + "/" + id);
    }
    Log(LogLevel::kInfo, registration->mount().path + ": process " + std::to_string(pid) +
                             " of service " + id + " has ended; service stopped");
    StopService(*registration, id, "exit", [](const Result<Json>&) {});
  };
  // The number may have been taken by another process before the pidfd was opened.
  const bool is_same = watch.pidfd.IsValid() &&
                       IsSameProcess(options_.roots, service.root_pid, service.pid_start_ns);
  if (!is_same) {
    loop_.After(Millis(0), stop);
    return;
  }
  const int fd = watch.pidfd.Get();
  roots_[key] = std::move(watch);
  if (!loop_.Watch(fd, EPOLLIN, [stop](uint32_t) { stop(); })) roots_.erase(key);
}

void Registry::UnwatchRoot(const std::string& key) {
  const auto it = roots_.find(key);
  if (it == roots_.end()) return;
  loop_.Unwatch(it->second.pidfd.Get());
  roots_.erase(it);
}

}  // namespace ppc::control
