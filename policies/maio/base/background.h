// SPDX-License-Identifier: Apache-2.0
#ifndef POLICIES_MAIO_BASE_BACKGROUND_H_
#define POLICIES_MAIO_BASE_BACKGROUND_H_

#include <functional>

namespace ppc::maio {

// Does work() where it keeps nobody waiting, then done() between two hooks; or both at once.
using Background = std::function<void(std::function<void()> work, std::function<void()> done)>;

}  // namespace ppc::maio

#endif  // POLICIES_MAIO_BASE_BACKGROUND_H_
