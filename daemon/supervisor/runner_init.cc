// SPDX-License-Identifier: Apache-2.0
#include "daemon/supervisor/runner_init.h"

#include <iterator>
#include <utility>

#include "daemon/base/log.h"
#include "daemon/supervisor/options.h"
#include "daemon/wire/protocol.h"

namespace ppc::control {
namespace {

// Programs for a runner that may want them; without, it tries by itself and says what is missing.
void LendPrograms(ObserverHub& hub, const std::string& directory,
                  std::unique_ptr<ObserverHub::Client>* observer, RunnerInit* init) {
  if (*observer == nullptr) {
    Result<std::unique_ptr<ObserverHub::Client>> client = hub.Enter();
    if (!client) return Log(LogLevel::kDebug, {directory, ""}, client.error().message);
    *observer = std::move(*client);
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
                          std::unique_ptr<ObserverHub::Client>* observer) {
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
  const bool may_observe =
      choice.backend == BackendKind::kAuto || choice.backend == BackendKind::kObserver;
  if (mount.is_plain && may_observe)
    LendPrograms(environment.observers, mount.path, observer, &init);
  return init;
}

}  // namespace ppc::control
