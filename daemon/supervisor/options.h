// SPDX-License-Identifier: Apache-2.0
// Owns what ppcd is told at its start: command line and environment.
#ifndef PPC_DAEMON_SUPERVISOR_OPTIONS_H_
#define PPC_DAEMON_SUPERVISOR_OPTIONS_H_

#include <span>
#include <string>

#include "daemon/base/result.h"
#include "daemon/cli/command_line.h"
#include "daemon/machine/roots.h"
#include "daemon/supervisor/event_loop.h"

namespace ppc::control {

struct Options {
  std::string socket;
  std::string service_socket;  // "": none
  std::string state_dir = "/run/ppc";
  std::string template_dir = "/var/lib/ppc/templates";
  std::string runner;         // program
  std::string metrics;        // address and port, "" = none
  std::string metrics_token;  // file
  std::string log_format = "text";
  SysRoots roots;
  uint64_t free_floor = 0;  // MemFree that is kept, 0: none
  bool is_private = false;  // of one command: the state directory goes with ppcd
  bool is_filtered = true;  // may use no other system calls than it needs
  bool is_verbose = false;
  std::string text;  // to be printed, and no more: --help, --version

  // Times.  Tests shorten them through $PPC_TIME_SCALE_PERCENT.
  Millis init_timeout{8000};  // ppc_init and attaching; with drain_timeout below a client's 20 s
  // service_start: the caller has been told long before that it goes on; a policy that answers
  // nothing at all for silence_limit is killed and told anew.
  Millis start_timeout{600000};
  Millis control_timeout{30000};  // other control messages; a policy may write what it learnt
  Millis status_timeout{1000};    // a runner's own status
  Millis drain_timeout{8000};     // stop -> exit
  Millis death_limit{10000};      // SIGKILL -> exit; then it is left to itself
  Millis first_back_off{200};     // doubles
  Millis first_retry{60000};      // of a policy that failed; doubles, up to an hour
  Millis quick_death{10000};      // died sooner than this after it ran
  Millis watch_period{5000};      // how often a runner is looked at
  Millis silence_limit{30000};    // running but mute for this long: killed
  Millis idle_limit{60000};       // of a connection whose place is needed
  Millis memory_period{200};      // how often several runners are told their shares of memory
  int max_quick_deaths = 5;
};

// Without the program's name.  EINVAL names the argument.
Result<Options> ParseOptions(std::span<char* const> arguments);
const cli::Program& DaemonProgram();

// The library of a policy given by name, ENOENT lists what is there; or by an absolute path, which
// is not looked at: the lookup might hang.
Result<std::string> ResolvePolicy(const std::string& name_or_path);

}  // namespace ppc::control

#endif  // PPC_DAEMON_SUPERVISOR_OPTIONS_H_
