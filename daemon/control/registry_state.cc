// SPDX-License-Identifier: Apache-2.0
// How registrations outlive ppcd: saving, adopting, and the orderly end.
#include <cerrno>
#include <utility>

#include "daemon/base/log.h"
#include "daemon/control/registry.h"
#include "daemon/machine/proc_info.h"

namespace ppc::control {

void Registry::Save(const Registration& registration) {
  if (!probe_.IsThere(registration.mount())) return;  // the file may be its successor's
  const PolicyChoice& choice = registration.choice();
  Json state{{"v", kProtocolVersion},   {"mount", registration.mount().path},
             {"policy", choice.name},   {"policy_path", choice.path},
             {"config", choice.config}, {"services", registration.services().Save()}};
  if (registration.state() == Registration::State::kFailed) {
    state["failed"] = registration.last_error();
  }
  if (Status status = state_.Save(registration.mount().path, state); !status) {
    Log(LogLevel::kWarning,
        "state of " + registration.mount().path +
            " is not saved, a restart of ppcd would forget it: " + status.error().message);
  }
}

// A mount that is gone may have a successor of the same name, whose file it is then.
void Registry::Forget(const Registration& gone) {
  const std::string& path = gone.mount().path;
  if (const Registration* successor = FindByPath(path, &gone)) return Save(*successor);
  state_.Remove(path);
}

void Registry::Adopt() {
  std::vector<std::string> problems;
  const std::vector<Json> states = state_.LoadAll(problems);
  for (const std::string& problem : problems) Log(LogLevel::kWarning, problem);
  for (const Json& state : states) AdoptOne(state);
}

void Registry::AdoptOne(const Json& state) {
  const Result<std::string> path = JsonString(state, "mount", "");
  const Result<std::string> policy = JsonString(state, "policy", "");
  const Result<std::string> policy_path = JsonString(state, "policy_path", "");
  if (!path || path->empty() || !policy || !policy_path || policy_path->empty()) {
    return Log(LogLevel::kWarning, "a state file without mount or policy is ignored");
  }
  const Result<MountInfo> mount = probe_.Find(*path);
  if (!mount || registrations_.contains(mount->index)) {
    Log(LogLevel::kInfo,
        *path + " is not adopted: " + (mount ? "registered already" : mount.error().message));
    return state_.Remove(*path);
  }
  const auto config = state.find("config");
  const bool has_config = config != state.end() && config->is_object();
  Registration& registration =
      Add(*mount, PolicyChoice{*policy, *policy_path, has_config ? *config : Json::object()});
  if (const auto services = state.find("services"); services != state.end()) {
    registration.services().Restore(*services);
  }
  if (const auto failed = state.find("failed"); failed != state.end() && failed->is_string()) {
    return registration.ResumeFailed(failed->get<std::string>());
  }
  Log(LogLevel::kInfo, *path + ": adopted with policy '" + *policy + "'");
  registration.Resume();
  for (const Service* service : registration.services().InOrder()) {
    if (service->root_pid != 0) WatchRoot(registration.handle(), *service);
  }
}

void Registry::Shutdown(std::function<void()> done) {
  is_ending_ = true;
  on_empty_ = std::move(done);
  if (registrations_.empty()) return on_empty_();
  for (auto& [index, registration] : registrations_) {
    registration->Remove([](const Status&) {});
  }
}

}  // namespace ppc::control
