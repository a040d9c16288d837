// SPDX-License-Identifier: Apache-2.0
#include "daemon/supervisor/service_ends.h"

#include <algorithm>
#include <cerrno>
#include <optional>
#include <utility>

#include "daemon/base/log.h"
#include "daemon/machine/proc_info.h"

namespace ppc::control {

void ServiceEnds::Stop(Registration& registration, const std::string& id, const char* reason,
                       std::function<void(Result<Json>)> done) {
  roots_.Unwatch(registration.handle(), id);
  registration.services().Remove(id);
  saved_.Save(registration, id);
  registration.Control({{"op", "service_stop"}, {"service_id", id}, {"reason", reason}},
                       std::move(done));
}

void ServiceEnds::Fail(Registration& registration, Service& service, int64_t wait_s,
                       const Reply& reply) {
  roots_.Unwatch(registration.handle(), service.id);
  service.root_pid = 0;
  service.message.erase("pid");
  service.is_ready = service.is_starting = false;
  service.is_failed = true;
  service.start = registration.services().NextStart();
  saved_.Save(registration, service.id);
  Json message{{"op", "service_failed"}, {"service_id", service.id}};
  if (wait_s > 0) message["wait_s"] = wait_s;
  registration.Control(message, [this, handle = registration.handle(), id = service.id,
                                 start = service.start, reply](const Result<Json>& answer) {
    Json told = OkAnswer();
    const Result<int64_t> waits = answer ? JsonInt(*answer, "wait_s", 0) : Result<int64_t>(0);
    told["wait_s"] = waits ? std::clamp<int64_t>(*waits, 0, kMostWaitS) : 0;
    // A policy that knows nothing of it, or does not want to, lets the service end at once.
    loop_.After(Millis(told["wait_s"].get<int64_t>() * 1000),
                [this, handle, id, start] { EndAwaited(handle, id, start); });
    reply(std::move(told));
  });
}

void ServiceEnds::EndAwaited(const std::string& handle, const std::string& id, uint64_t start) {
  Registration* registration = registrations_.FindByHandle(handle);
  Service* service = registration == nullptr ? nullptr : registration->services().Find(id);
  // Otherwise it has been started again.
  if (service == nullptr || service->start != start) return;
  Log(LogLevel::kInfo, {registration->mount().path, id},
      "service " + id + " failed and was not started again; service stopped");
  Stop(*registration, id, "failed");
}

void ServiceEnds::TakeEndOfRoot(const std::string& handle, const std::string& id) {
  Registration* registration = registrations_.FindByHandle(handle);
  Service* service = registration == nullptr ? nullptr : registration->services().Find(id);
  if (service == nullptr) return roots_.Unwatch(handle, id);
  const std::optional<int> end = roots_.EndOf(handle, *service);
  const bool has_failed = end && IsFailure(*end);
  Log(LogLevel::kInfo, {registration->mount().path, id},
      "process " + std::to_string(service->root_pid) + " of service " + id +
          (has_failed ? " has ended by a failure; its next start is awaited"
                      : " has ended; service stopped"));
  if (!has_failed) return Stop(*registration, id, "exit");
  Fail(*registration, *service, 0, [](const Json&) {});
}

void GroupWatch::Begin() {
  if (std::exchange(is_waiting_, true)) return;
  loop_.After(period_, [this] {
    is_waiting_ = false;
    if (!has_ended_) Look();
  });
}

void GroupWatch::End() { has_ended_ = true; }

void GroupWatch::Look() {
  bool is_any_left = false;
  for (const auto& [key, registration] : registrations_.all()) {
    for (const std::string& id :
         registration->services().Claimed([](const Owner&) { return true; })) {
      if (!StopIfGone(*registration, id)) is_any_left = true;
    }
  }
  if (is_any_left) Begin();
}

bool GroupWatch::StopIfGone(Registration& registration, const std::string& id) {
  const Owner owner = registration.services().Find(id)->owner;
  const std::string& cgroup = owner.cgroup;
  const Result<Cgroups::Group> group = cgroups_.Resolve(cgroup);
  // One that has been made anew under its name belongs to another owner.
  const bool is_another = group && owner.group_inode != 0 && group->inode != owner.group_inode;
  // Without a view of any group nothing is known of one.
  if (!is_another && (group || group.error().code != ENOENT || !cgroups_.Resolve("/")))
    return false;
  Log(LogLevel::kInfo, {registration.mount().path, id},
      "control group " + DumpJson(cgroup) + " of service " + id + " is gone; service stopped");
  ends_.Stop(registration, id, "exit");
  return true;
}

}  // namespace ppc::control
