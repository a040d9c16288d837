// SPDX-License-Identifier: Apache-2.0
#include "tools/ppcctl/running_service.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <system_error>
#include <thread>

#include "daemon/base/json.h"
#include "tools/ppcctl/daemon_link.h"

namespace ppc::ctl {
namespace {

constexpr const char* kDefaultPolicy = "maio";
// Longer than ppcd waits for the policy, which may write what it learnt.
constexpr unsigned kTellTimeoutMs = 35000;

// The policy's own start, which ppcd bounds, is within libppc's default.  The link to a private
// ppcd has that, and is the only one that is served.
Result<Json> AskPatiently(DaemonLink& link, const StartedService& service, const Json& request) {
  if (service.is_private) return link.Ask(request);
  return DaemonLink(0, service.socket).Ask(request);
}

}  // namespace

bool CallsForPrivateDaemon(int code) {
  return code == ENOENT || code == ECONNREFUSED || (code == EACCES && geteuid() != 0);
}

Status StartOn(DaemonLink& link, const std::string& directory, Json spec, StartedService& service) {
  spec["mount"] = directory;
  const Result<Json> answer = link.Ask(spec);
  if (!answer) return answer.error();
  // What has the directory, where that is one around it.
  const std::string mount = JsonText(*answer, "mount");
  service.mount = mount.empty() ? directory : mount;
  service.id = JsonText(*answer, "service_id");
  const std::string first = JsonText(*answer, "template");
  service.name = first.empty() ? service.id : first;
  return Ok();
}

Place FindPlace(const Json& mounts, const ServiceRequest& request) {
  Place place{request.directory, ""};
  size_t longest = 0;
  for (const Json& entry : mounts) {
    const std::string path = JsonText(entry, "mount");
    const std::string policy = JsonText(entry, "policy");
    const bool is_same = path == request.directory;
    const bool is_around = request.directory.starts_with(path + "/");
    if (path.size() <= longest || (!is_same && !is_around)) continue;
    longest = path.size();
    place = Place{path, policy};
  }
  return place;
}

Status RegisterAndStart(DaemonLink& link, const ServiceRequest& request, StartedService& service,
                        const std::function<void(const std::string&)>& on_registering) {
  // Where the directory has no policy yet, and where one was asked for.
  const bool is_asked = !request.policy.empty() || !request.config.empty();
  const Result<Json> list = link.Ask({{"op", "list"}});
  if (!list) return list.error();
  const Place place = FindPlace(list->value("mounts", Json::array()), request);
  const std::string policy = request.policy.empty() ? kDefaultPolicy : request.policy;
  if (place.policy.empty() || is_asked) {
    if (place.policy.empty()) on_registering(place.directory);
    Json registration{
        {"op", "reg_policy"}, {"mount", place.directory}, {"policy", policy}, {"backend", "auto"}};
    if (!request.config.empty()) registration["config"] = request.config;
    const Result<Json> answer = AskPatiently(link, service, registration);
    if (!answer) return answer.error();
    service.is_new = place.policy.empty() && !service.is_private;
    service.policy = policy;
  }
  return StartOn(link, place.directory, request.spec, service);
}

Result<StartedService> StartBeside(DaemonLink& link, const StartedService& first,
                                   const std::string& directory, ServiceRequest request) {
  StartedService service;
  service.is_private = first.is_private;
  service.socket = first.socket;
  request.directory = directory;
  // Templates are named by the service alone, and it has one for each directory.
  request.spec.erase("service_id");
  request.spec["params"] = {{"beside", first.name}, {"directory", directory}};
  if (StartOn(link, directory, request.spec, service)) return service;
  const auto nothing = [](const std::string&) {};
  if (Status status = RegisterAndStart(link, request, service, nothing); !status) {
    return status.error();
  }
  return service;
}

void RunningService::Ready() {
  Later([this] {
    if (!std::exchange(is_ready_, true)) Tell("service_ready");
  });
}

bool RunningService::End(Outcome outcome, unsigned limit_ms) {
  Later([this, outcome] {
    const bool has_succeeded = outcome == Outcome::kSucceeded;
    if (has_succeeded && !is_ready_ && !IsReadyAlready()) Tell("service_ready");
    Tell(outcome == Outcome::kFailed ? "service_failed" : "service_stop");
  });
  return last_.wait_for(std::chrono::milliseconds(limit_ms)) == std::future_status::ready;
}

void RunningService::Later(std::function<void()> function) {
  const std::lock_guard lock(mutex_);
  std::packaged_task<void()> task([before = last_, function = std::move(function)] {
    if (before.valid()) before.wait();
    function();
  });
  last_ = task.get_future().share();
  try {
    // The thread keeps this object, not the task, which last_ keeps.
    std::thread([self = shared_from_this(), task = std::move(task)]() mutable { task(); }).detach();
  } catch (const std::system_error& e) {
    Complain(std::string("warning: ppcd is not told: ") + e.what());
  }
}

void RunningService::Tell(const char* op) {
  DaemonLink link(std::max(timeout_ms_, kTellTimeoutMs), socket_);
  const Result<Json> answer = link.Ask({{"op", op}, {"mount", mount_}, {"service_id", id_}});
  if (answer || std::exchange(has_warned_, true)) return;
  Complain(std::string("warning: ") + op + ": " + answer.error().message);
}

// True if the command already said so itself by `ppcctl service ready`.
bool RunningService::IsReadyAlready() const {
  DaemonLink link(timeout_ms_, socket_);
  const Result<Json> answer = link.Ask({{"op", "status"}, {"mount", mount_}});
  if (!answer || !answer->contains("mounts")) return false;
  for (const Json& entry : (*answer)["mounts"]) {
    for (const Json& service : entry.value("services", Json::array())) {
      if (service.value("service_id", "") == id_) return service.value("state", "") == "ready";
    }
  }
  return false;
}

}  // namespace ppc::ctl
