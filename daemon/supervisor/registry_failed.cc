// SPDX-License-Identifier: Apache-2.0
// Services whose process has failed: the policy may load what their next start needs before that is
// told of.  A failure that nobody follows is a stop after a while.
#include <algorithm>
#include <cerrno>
#include <optional>
#include <utility>

#include "daemon/base/log.h"
#include "daemon/machine/process_end.h"
#include "daemon/supervisor/registry.h"

namespace ppc::control {
namespace {

constexpr int64_t kMostWaitS = 3600;

}  // namespace

void Registry::ServiceFailed(const Json& body, const Peer& peer, const Reply& reply) {
  const Result<Named> found = FindWithService(body, peer);
  if (!found) return reply(ErrorAnswer(found.error()));
  const std::string& id = found->id;
  Json message{{"op", "service_failed"}, {"service_id", id}};
  if (body.contains("wait_s")) {
    const auto wait_s = body["wait_s"].get<int64_t>();
    if (wait_s < 1 || wait_s > kMostWaitS) {
      return reply(ErrorAnswer(Error{EINVAL, "\"wait_s\" is " + std::to_string(wait_s) + "; 1 to " +
                                                 std::to_string(kMostWaitS)}));
    }
    message["wait_s"] = wait_s;
  }
  FailService(*found->registration, *found->registration->services().Find(id), message, reply);
}

void Registry::FailService(Registration& registration, Service& service, const Json& message,
                           const Reply& reply) {
  UnwatchRoot(registration.handle() + "/" + service.id);
  service.root_pid = 0;
  service.message.erase("pid");
  service.is_ready = service.is_starting = false;
  service.is_failed = true;
  service.start = next_start_++;
  Save(registration);
  registration.Control(message, [this, handle = registration.handle(), id = service.id,
                                 start = service.start, reply](const Result<Json>& answer) {
    Json told = OkAnswer();
    const Result<int64_t> wait_s = answer ? JsonInt(*answer, "wait_s", 0) : Result<int64_t>(0);
    told["wait_s"] = wait_s ? std::clamp<int64_t>(*wait_s, 0, kMostWaitS) : 0;
    // A policy that knows nothing of it, or does not want to, lets the service end at once.
    loop_.After(Millis(told["wait_s"].get<int64_t>() * 1000),
                [this, handle, id, start] { EndAwaited(handle, id, start); });
    reply(std::move(told));
  });
}

void Registry::EndAwaited(const std::string& handle, const std::string& id, uint64_t start) {
  Registration* registration = FindByHandle(handle);
  Service* service = registration == nullptr ? nullptr : registration->services().Find(id);
  // Otherwise it has been started again.
  if (service == nullptr || service->start != start) return;
  Log(LogLevel::kInfo, {registration->mount().path, id},
      "service " + id + " failed and was not started again; service stopped");
  StopService(*registration, id, "failed", [](const Result<Json>&) {});
}

void Registry::EndOfRoot(const std::string& handle, const std::string& id) {
  const std::string key = handle + "/" + id;
  Registration* registration = FindByHandle(handle);
  Service* service = registration == nullptr ? nullptr : registration->services().Find(id);
  if (service == nullptr) return UnwatchRoot(key);
  const auto watch = roots_.find(key);
  const std::optional<int> end = watch == roots_.end()
                                     ? std::nullopt
                                     : ProcessEnd(options_.roots, watch->second.pidfd.Get(),
                                                  service->root_pid, service->pid_start_ns);
  const bool has_failed = end && IsFailure(*end);
  Log(LogLevel::kInfo, {registration->mount().path, id},
      "process " + std::to_string(service->root_pid) + " of service " + id +
          (has_failed ? " has ended by a failure; its next start is awaited"
                      : " has ended; service stopped"));
  if (!has_failed) return StopService(*registration, id, "exit", [](const Result<Json>&) {});
  FailService(*registration, *service, {{"op", "service_failed"}, {"service_id", id}},
              [](const Json&) {});
}

}  // namespace ppc::control
