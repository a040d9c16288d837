// SPDX-License-Identifier: Apache-2.0
#include "tools/ppcctl/running_service.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <system_error>
#include <thread>

#include "tools/ppcctl/daemon_link.h"

namespace ppc::ctl {
namespace {

constexpr const char* kDefaultPolicy = "maio";
// Longer than ppcd waits for the policy, which may write what it learnt.
constexpr unsigned kTellTimeoutMs = 35000;

// Nobody is there, or nobody who would let us in: a user's own does as well.
bool CallsForPrivateDaemon(int code) {
  return code == ENOENT || code == ECONNREFUSED || (code == EACCES && geteuid() != 0);
}

std::string TextOf(const Json& object, const char* key) {
  const Result<std::string> text = JsonString(object, key, "");
  return text ? *text : "";
}

// One question to the daemon of `service`.
Result<Json> Ask(const StartedService& service, const Json& message, unsigned timeout_ms) {
  DaemonLink link(timeout_ms, service.socket);
  return link.Ask(message);
}

Status StartPrivateDaemon(StartedService& service, unsigned timeout_ms) {
  Result<std::unique_ptr<PrivateDaemon>> daemon = PrivateDaemon::Start(timeout_ms);
  if (!daemon) return daemon.error();
  service.daemon = *std::move(daemon);
  service.socket = service.daemon->socket();
  return Ok();
}

Status StartOn(const std::string& directory, const ServiceRequest& request,
               StartedService& service) {
  Json spec = request.spec;
  spec["mount"] = directory;
  const Result<Json> answer = Ask(service, spec, request.timeout_ms);
  if (!answer) return answer.error();
  // What has the directory, where that is one around it.
  const std::string mount = TextOf(*answer, "mount");
  service.mount = mount.empty() ? directory : mount;
  service.id = TextOf(*answer, "service_id");
  const std::string first = TextOf(*answer, "template");
  service.name = first.empty() ? service.id : first;
  return Ok();
}

}  // namespace

Place FindPlace(const Json& mounts, const ServiceRequest& request) {
  Place place{request.directory, ""};
  size_t longest = 0;
  for (const Json& entry : mounts) {
    const std::string path = TextOf(entry, "mount");
    const std::string policy = TextOf(entry, "policy");
    const bool is_same = path == request.directory;
    const bool is_around = request.directory.starts_with(path + "/");
    if (path.size() <= longest || (!is_same && !is_around)) continue;
    longest = path.size();
    place = Place{path, policy};
  }
  return place;
}

namespace {

// Where the directory has no policy yet, and where one was asked for.
Status RegisterAndStart(const ServiceRequest& request, StartedService& service) {
  const bool is_asked = !request.policy.empty() || !request.config.empty();
  const Result<Json> list = Ask(service, {{"op", "list"}}, request.timeout_ms);
  if (!list) return list.error();
  const Place place = FindPlace(list->value("mounts", Json::array()), request);
  const std::string policy = request.policy.empty() ? kDefaultPolicy : request.policy;
  if (place.policy.empty() || is_asked) {
    Json registration{
        {"op", "reg_policy"}, {"mount", place.directory}, {"policy", policy}, {"backend", "auto"}};
    if (!request.config.empty()) registration["config"] = request.config;
    // The policy's own start, which ppcd bounds, is within libppc's default.
    const Result<Json> answer = Ask(service, registration, 0);
    if (!answer) return answer.error();
    service.is_new = place.policy.empty() && service.daemon == nullptr;
    service.policy = policy;
  }
  return StartOn(place.directory, request, service);
}

}  // namespace

Result<StartedService> StartService(const ServiceRequest& request) {
  StartedService service;
  const bool is_asked = !request.policy.empty() || !request.config.empty();
  DaemonLink link(request.timeout_ms);
  const Result<Json> ping = link.Ask({{"op", "ping"}});
  if (!ping && !(link.is_unreachable() && CallsForPrivateDaemon(ping.error().code))) {
    return ping.error();
  }
  // One that does not let us register has what root has registered.
  const bool is_admin = ping && TextOf(*ping, "rights") != "service";
  if (ping && !is_admin && !is_asked && StartOn(request.directory, request, service)) {
    return service;
  }
  if (!is_admin) {
    if (Status status = StartPrivateDaemon(service, request.timeout_ms); !status) {
      return status.error();
    }
  }
  if (Status status = RegisterAndStart(request, service); !status) return status.error();
  return service;
}

Result<StartedService> StartBeside(const StartedService& first, const std::string& directory,
                                   ServiceRequest request) {
  StartedService service;
  service.socket = first.socket;
  request.directory = directory;
  // Templates are named by the service alone, and it has one for each directory.
  request.spec.erase("service_id");
  request.spec["params"] = {{"beside", first.name}, {"directory", directory}};
  if (StartOn(directory, request, service)) return service;
  if (Status status = RegisterAndStart(request, service); !status) return status.error();
  return service;
}

void RunningService::Ready() {
  Later([self = shared_from_this()] {
    if (!std::exchange(self->is_ready_, true)) self->Tell("service_ready");
  });
}

bool RunningService::End(Outcome outcome, unsigned limit_ms) {
  Later([self = shared_from_this(), outcome] {
    const bool has_succeeded = outcome == Outcome::kSucceeded;
    if (has_succeeded && !self->is_ready_ && !self->IsReadyAlready()) self->Tell("service_ready");
    self->Tell(outcome == Outcome::kFailed ? "service_failed" : "service_stop");
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
    std::thread(std::move(task)).detach();
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
