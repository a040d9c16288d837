// SPDX-License-Identifier: Apache-2.0
// Switching PPC off on this machine: every directory is the kernel's alone at once, also after a
// reboot, until it is switched on again.  What is registered meanwhile is remembered; services
// start natively.
#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

#include "daemon/base/log.h"
#include "daemon/supervisor/registry.h"

namespace ppc::control {

std::string Registry::OffMark() const { return control::OffMark(options_.template_dir); }

void Registry::SwitchOff(const Reply& reply) {
  const UniqueFd mark(open(OffMark().c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0644));
  Json answer = OkAnswer();
  answer["mark"] = OffMark();
  answer["directories"] = is_off_ ? RememberedMounts().size() : registrations_.size();
  // Off all the same, now.
  if (!mark.IsValid()) {
    answer["warning"] = PosixError(OffMark(), errno).message + "; a reboot switches it on again";
  }
  if (!std::exchange(is_off_, true)) Log(LogLevel::kWarning, "switched off");
  if (registrations_.empty()) return reply(std::move(answer));
  on_empty_.emplace_back([reply, answer] { reply(answer); });
  for (auto& [key, registration] : registrations_) {
    Save(*registration);
    registration->Remove([](const Status&) {});
  }
}

void Registry::SwitchOn(const Reply& reply) {
  if (!registrations_.empty() && is_off_) {
    return reply(
        ErrorAnswer(Error{EAGAIN, "policies are still being switched off; try again in a moment"}));
  }
  if (unlink(OffMark().c_str()) != 0 && errno != ENOENT) {
    return reply(ErrorAnswer(PosixError(OffMark(), errno)));
  }
  if (std::exchange(is_off_, false)) {
    Log(LogLevel::kInfo, "switched on");
    Adopt();
  }
  Json answer = OkAnswer();
  answer["directories"] = registrations_.size();
  reply(std::move(answer));
}

void Registry::HandleWhileOff(const Request& request, const Reply& reply) {
  if (request.op == "reg_policy") return RememberPolicy(request.body, reply);
  if (request.op == "rm_policy") {
    state_.Remove(request.body.at("mount").get<std::string>());
    return reply(OkAnswer());
  }
  reply(ErrorAnswer(Error{ESHUTDOWN, "PPC is switched off on this machine; ppcctl on"}));
}

void Registry::RememberPolicy(const Json& body, const Reply& reply) {
  const Result<BackendKind> kind =
      ParseBackendKind(body.contains("backend") ? body["backend"].get<std::string>() : "auto");
  if (!kind) return reply(ErrorAnswer(kind.error()));
  const Result<MountInfo> mount = probe_.FindFor(body.at("mount").get<std::string>(), *kind);
  if (!mount) return reply(ErrorAnswer(mount.error()));
  const std::string policy = body.at("policy").get<std::string>();
  Result<std::string> path = ResolvePolicy(policy);
  if (!path) return reply(ErrorAnswer(path.error()));
  const PolicyChoice choice{policy, std::move(path).value(),
                            body.contains("config") ? body.at("config") : Json::object(), *kind};
  if (const Status saved = state_.Save(mount->path, SavedState(*mount, choice)); !saved) {
    return reply(ErrorAnswer(saved.error()));
  }
  Json answer = OkAnswer();
  answer["state"] = "off";
  answer["existing"] = false;
  reply(std::move(answer));
}

// What is registered again as soon as it is switched on.
Json Registry::RememberedMounts() const {
  Json list = Json::array();
  if (!is_off_) return list;
  std::vector<std::string> problems;
  for (const Json& state : state_.LoadAll(problems)) {
    list.push_back({{"mount", state.value("mount", "")},
                    {"policy", state.value("policy", "")},
                    {"backend", state.value("backend", "")},
                    {"state", "off"}});
  }
  return list;
}

}  // namespace ppc::control
