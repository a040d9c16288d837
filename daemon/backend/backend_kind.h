// SPDX-License-Identifier: Apache-2.0
// Owns the names of the backends that a registration may ask for.
// Threads: pure functions, any thread.
#ifndef PPC_DAEMON_BACKEND_BACKEND_KIND_H_
#define PPC_DAEMON_BACKEND_BACKEND_KIND_H_

#include <array>
#include <cerrno>
#include <cstddef>
#include <string>
#include <string_view>

#include "daemon/base/result.h"

namespace ppc {

enum class BackendKind { kAuto, kKmod, kObserver, kPoll };

inline constexpr std::array<const char*, 4> kBackendNames = {"auto", "kmod", "observer", "poll"};

// As Capabilities::backend has it.
inline const char* BackendName(BackendKind kind) {
  return kBackendNames[static_cast<size_t>(kind)];
}

inline Result<BackendKind> ParseBackendKind(std::string_view name) {
  for (size_t i = 0; i < kBackendNames.size(); ++i) {
    if (name == kBackendNames[i]) return static_cast<BackendKind>(i);
  }
  return Error{EINVAL, "there is no backend '" + std::string(name.substr(0, 32)) +
                           "'; use auto, kmod, observer or poll"};
}

}  // namespace ppc

#endif  // PPC_DAEMON_BACKEND_BACKEND_KIND_H_
