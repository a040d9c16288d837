// SPDX-License-Identifier: Apache-2.0
#include "daemon/supervisor/runner_init.h"

#include <iterator>
#include <utility>

#include "daemon/base/log.h"
#include "daemon/supervisor/options.h"
#include "daemon/supervisor/state_dir.h"
#include "daemon/wire/protocol.h"

namespace ppc::control {
namespace {

// Where policies note how far their services are: whoever comes after this runner goes on there.
void LendCheckpoints(const StateDir& state, const std::string& directory, bool is_fresh,
                     RunnerInit* init) {
  Result<UniqueFd> file = state.OpenCheckpoints(directory, is_fresh);
  if (!file) {
    return Log(LogLevel::kWarning, {directory, ""},
               "a service whose runner dies in the middle of its load starts over: " +
                   file.error().message);
  }
  init->message["checkpoints"] = kRunnerLentFd + init->lent.size();
  init->lent.push_back(std::move(*file));
}

// Programs for a runner that may want them; without, it tries by itself and says what is missing.
void LendPrograms(ObserverHub& hub, const std::string& directory,
                  std::unique_ptr<ObserverHub::Place>* observer, RunnerInit* init) {
  if (*observer == nullptr) {
    Result<std::unique_ptr<ObserverHub::Place>> place = hub.Enter();
    if (!place) return Log(LogLevel::kDebug, {directory, ""}, place.error().message);
    *observer = std::move(*place);
  }
  Result<ObserverFds> fds = (*observer)->Share();
  if (!fds) return;
  init->message["lent"] = Json{{"observer", (*observer)->Directory()},
                               {"first_descriptor", kRunnerLentFd + init->lent.size()},
                               {"descriptors", fds->size()}};
  std::move(fds->begin(), fds->end(), std::back_inserter(init->lent));
}

}  // namespace

RunnerInit MakeRunnerInit(const Environment& environment, const MountInfo& mount,
                          const PolicyChoice& choice, bool is_fresh,
                          std::unique_ptr<ObserverHub::Place>* observer) {
  const auto runtime = choice.config.find("runtime");
  RunnerInit init{.message{{"op", "init"},
                           {"mount", mount.path},
                           {"backend", BackendName(choice.backend)},
                           {"policy", choice.path},
                           {"config", choice.config},
                           {"template_dir", environment.options.template_dir},
                           {"fresh", is_fresh},
                           {"runtime", runtime == choice.config.end() ? Json::object() : *runtime}},
                  .lent{}};
  if (!mount.is_plain) init.message["device"] = mount.Key();
  LendCheckpoints(environment.state, mount.path, is_fresh, &init);
  const bool may_observe =
      choice.backend == BackendKind::kAuto || choice.backend == BackendKind::kObserver;
  if (mount.is_plain && may_observe)
    LendPrograms(environment.observers, mount.path, observer, &init);
  return init;
}

}  // namespace ppc::control
