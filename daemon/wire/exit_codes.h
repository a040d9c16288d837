// SPDX-License-Identifier: Apache-2.0
// Owns the exit status of ppc-runner: its parent decides by it what to do next.
#ifndef PPC_DAEMON_WIRE_EXIT_CODES_H_
#define PPC_DAEMON_WIRE_EXIT_CODES_H_

namespace ppc {

enum RunnerExit : int {
  kExitStopped = 0,  // asked to stop, or the supervisor went away
  kExitFailed = 1,   // could not start (said why)
  kExitUsage = 2,
  kExitMountGone = 19,  // the mount is gone: nothing to do any more
  kExitDropped = 20,    // the policy faulted and was dropped
  kExitHung = 21,       // a hook hung: dropped, and only the end of the process ends it
  kExitExpired = 22,    // the lease ran out: the device went back to native; start again
};

}  // namespace ppc

#endif  // PPC_DAEMON_WIRE_EXIT_CODES_H_
