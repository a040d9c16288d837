// SPDX-License-Identifier: Apache-2.0
// Owns the name of the way in which the executor's thread has something done that may wait.
#ifndef PPC_DAEMON_EXEC_ELSEWHERE_H_
#define PPC_DAEMON_EXEC_ELSEWHERE_H_

#include <functional>

namespace ppc {

// Runs work() on another thread, then done() on the executor's.  Returns false if the queue is
// full.  If empty, there is no other thread: the caller does the work inline (tests, simulator).
using Elsewhere = std::function<bool(std::function<void()> work, std::function<void()> done)>;

}  // namespace ppc

#endif  // PPC_DAEMON_EXEC_ELSEWHERE_H_
