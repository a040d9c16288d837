// SPDX-License-Identifier: Apache-2.0
#include "daemon/base/threads.h"

#include <system_error>
#include <utility>

namespace ppc {

std::thread StartThread(const std::string& what, std::function<void()> run) {
  try {
    return std::thread(std::move(run));
  } catch (const std::system_error& error) {
    throw std::system_error(error.code(),
                            "cannot start " + what +
                                "; raise TasksMax= of the unit, pids.max of the control group or "
                                "the user's limit (ulimit -u), or set runtime.threads_per_node "
                                "lower");
  }
}

}  // namespace ppc
