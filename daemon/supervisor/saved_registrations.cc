// SPDX-License-Identifier: Apache-2.0
#include "daemon/supervisor/saved_registrations.h"

#include <cerrno>
#include <utility>

#include "daemon/base/log.h"
#include "daemon/wire/protocol.h"

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

Json SavedState(const MountInfo& mount, const PolicyChoice& choice) {
  Json state{{"v", kProtocolVersion},   {"mount", mount.path},
             {"policy", choice.name},   {"policy_path", choice.path},
             {"config", choice.config}, {"backend", BackendName(choice.backend)}};
  if (mount.is_plain) state["directory"] = IdentityOf(mount);
  return state;
}

}  // namespace

void SavedRegistrations::Save(const Registration& registration, const std::string& changed) const {
  if (!probe_.IsThere(registration.mount())) return;
  Json state = SavedState(registration.mount(), registration.choice());
  if (registration.state() == Registration::State::kFailed) {
    state["failed"] = registration.last_error();
  }
  std::string text = DumpJson(state);
  text.back() = ',';  // in place of the brace that closes it
  text += "\"services\":" + registration.services().Save(changed) + "}";
  if (Status status = state_.Save(registration.mount().path, text); !status) {
    Log(LogLevel::kWarning,
        "state of " + registration.mount().path +
            " is not saved, a restart of ppcd would forget it: " + status.error().message);
  }
}

Status SavedRegistrations::Save(const MountInfo& mount, const PolicyChoice& choice) const {
  return state_.Save(mount.path, DumpJson(SavedState(mount, choice)));
}

std::vector<SavedRegistration> SavedRegistrations::Load() const {
  std::vector<std::string> problems;
  const std::vector<Json> states = state_.LoadAll(problems);
  for (const std::string& problem : problems) Log(LogLevel::kWarning, problem);
  std::vector<SavedRegistration> all;
  for (const Json& state : states) {
    if (std::optional<SavedRegistration> saved = Parse(state)) all.push_back(*std::move(saved));
  }
  return all;
}

// What a state file is about, if it is still that.
Result<MountInfo> SavedRegistrations::FindAgain(const Json& state, const std::string& path) const {
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

std::optional<SavedRegistration> SavedRegistrations::Parse(const Json& state) const {
  const Result<std::string> path = JsonString(state, "mount", "");
  const Result<std::string> policy = JsonString(state, "policy", "");
  const Result<std::string> policy_path = JsonString(state, "policy_path", "");
  if (!path || path->empty() || !policy || !policy_path || policy_path->empty()) {
    Log(LogLevel::kWarning, "a state file without mount or policy is ignored");
    return std::nullopt;
  }
  Result<MountInfo> mount = FindAgain(state, *path);
  if (!mount) {
    Log(LogLevel::kInfo, *path + " is not adopted: " + mount.error().message);
    state_.Remove(*path);
    return std::nullopt;
  }
  const auto config = state.find("config");
  const bool has_config = config != state.end() && config->is_object();
  SavedRegistration saved{
      *std::move(mount),
      {*policy, *policy_path, has_config ? *config : Json::object(), SavedBackend(state).value()},
      state.value("services", Json()),
      std::nullopt};
  if (const auto failed = state.find("failed"); failed != state.end() && failed->is_string()) {
    saved.failed = failed->get<std::string>();
  }
  return saved;
}

Json SavedRegistrations::Describe() const {
  Json list = Json::array();
  std::vector<std::string> problems;
  for (const Json& state : state_.LoadAll(problems)) {
    Json& one = list.emplace_back(Json{{"state", "off"}});
    for (const char* const key : {"mount", "policy", "backend"}) {
      one[key] = JsonText(state, key);
    }
  }
  return list;
}

}  // namespace ppc::control
