// SPDX-License-Identifier: Apache-2.0
// Owns starting threads.
// Threads: any.
#ifndef PPC_DAEMON_BASE_THREADS_H_
#define PPC_DAEMON_BASE_THREADS_H_

#include <functional>
#include <string>
#include <thread>

namespace ppc {

// what: "a thread that loads".  Throws std::system_error, with the remedy, if the process may have
// no more threads.
std::thread StartThread(const std::string& what, std::function<void()> run);

}  // namespace ppc

#endif  // PPC_DAEMON_BASE_THREADS_H_
