// SPDX-License-Identifier: Apache-2.0
// How registrations outlive ppcd: saving, adopting, and the orderly end.
#include <cerrno>
#include <utility>

#include "daemon/base/log.h"
#include "daemon/machine/proc_info.h"
#include "daemon/supervisor/registry.h"

namespace ppc::control {
namespace {

// "" where it was not looked up.
std::string IdentityOf(const MountInfo& directory) {
  return directory.node == 0 ? "" : directory.dev + " " + std::to_string(directory.node);
}

Result<BackendKind> SavedBackend(const Json& state) {
  const Result<std::string> name = JsonString(state, "backend", "auto");
  if (!name) return name.error();
  return ParseBackendKind(*name);
}

}  // namespace

void Registry::Save(const Registration& registration) {
  if (!probe_.IsThere(registration.mount())) return;  // the file may be its successor's
  Json state = SavedState(registration.mount(), registration.choice());
  state["services"] = registration.services().Save();
  if (registration.state() == Registration::State::kFailed) {
    state["failed"] = registration.last_error();
  }
  if (Status status = state_.Save(registration.mount().path, state); !status) {
    Log(LogLevel::kWarning,
        "state of " + registration.mount().path +
            " is not saved, a restart of ppcd would forget it: " + status.error().message);
  }
}

Json Registry::SavedState(const MountInfo& mount, const PolicyChoice& choice) {
  Json state{{"v", kProtocolVersion},
             {"mount", mount.path},
             {"policy", choice.name},
             {"policy_path", choice.path},
             {"config", choice.config},
             {"services", Json::array()},
             {"backend", BackendName(choice.backend)}};
  if (mount.is_plain) state["directory"] = IdentityOf(mount);
  return state;
}

// A mount that is gone may have a successor of the same name, whose file it is then.
void Registry::Forget(const Registration& gone) {
  const std::string& path = gone.mount().path;
  if (const Registration* successor = FindByPath(path, &gone)) return Save(*successor);
  state_.Remove(path);
}

void Registry::Adopt() {
  if (is_off_) return;
  std::vector<std::string> problems;
  const std::vector<Json> states = state_.LoadAll(problems);
  for (const std::string& problem : problems) Log(LogLevel::kWarning, problem);
  for (const Json& state : states) AdoptOne(state);
}

// What a state file is about, if it is still that.
Result<MountInfo> Registry::FindAgain(const Json& state, const std::string& path) const {
  const Result<BackendKind> kind = SavedBackend(state);
  if (!kind) return kind.error();
  Result<MountInfo> mount = probe_.FindFor(path, *kind);
  if (!mount) return mount;
  const auto directory = state.find("directory");
  const bool was_plain = directory != state.end();
  const bool is_unknown = mount->node == 0 || (was_plain && *directory == "");
  if (mount->is_plain != was_plain ||
      (was_plain && !is_unknown && *directory != IdentityOf(*mount))) {
    return Error{ESTALE, "something else has taken its place"};
  }
  return mount;
}

void Registry::AdoptOne(const Json& state) {
  const Result<std::string> path = JsonString(state, "mount", "");
  const Result<std::string> policy = JsonString(state, "policy", "");
  const Result<std::string> policy_path = JsonString(state, "policy_path", "");
  if (!path || path->empty() || !policy || !policy_path || policy_path->empty()) {
    return Log(LogLevel::kWarning, "a state file without mount or policy is ignored");
  }
  const Result<MountInfo> mount = FindAgain(state, *path);
  if (!mount || registrations_.contains(mount->Key())) {
    Log(LogLevel::kInfo,
        *path + " is not adopted: " + (mount ? "registered already" : mount.error().message));
    return state_.Remove(*path);
  }
  const Result<BackendKind> kind = SavedBackend(state);
  const auto config = state.find("config");
  const bool has_config = config != state.end() && config->is_object();
  Registration& registration =
      Add(*mount,
          PolicyChoice{*policy, *policy_path, has_config ? *config : Json::object(), kind.value()});
  if (const auto services = state.find("services"); services != state.end()) {
    registration.services().Restore(*services);
    if (!registration.services().Claimed([](const Owner&) { return true; }).empty()) WatchGroups();
  }
  if (const auto failed = state.find("failed"); failed != state.end() && failed->is_string()) {
    return registration.ResumeFailed(failed->get<std::string>());
  }
  Log(LogLevel::kInfo, {*path, ""}, "adopted with policy '" + *policy + "'");
  registration.Resume();
  for (const Service* service : registration.services().InOrder()) {
    if (service->root_pid != 0) WatchRoot(registration.handle(), *service);
  }
}

void Registry::Shutdown(std::function<void()> done) {
  is_ending_ = true;
  if (registrations_.empty()) return done();
  on_empty_.push_back(std::move(done));
  for (auto& [key, registration] : registrations_) {
    registration->Remove([](const Status&) {});
  }
}

}  // namespace ppc::control
