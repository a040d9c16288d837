// SPDX-License-Identifier: Apache-2.0
// Owns what was logged by ppcd and its runners, from the journal or as ppcd tells it.
// Threads: one.
#ifndef PPC_EXTRAS_WATCH_LOG_LINES_H_
#define PPC_EXTRAS_WATCH_LOG_LINES_H_

#include <cstdint>
#include <string>
#include <vector>

#include "daemon/base/json.h"

namespace ppc::ctl {

struct LoggedLine {
  uint64_t time_ns = 0;  // since 1970
  int priority = 6;      // as of syslog
  std::string text;
  std::string directory;  // "" = none, or not told
  std::string service;    // likewise
};

// The journal's, of `mount` ("": of all) and of the runner with that number; the last 5000 lines
// are looked at.  Nothing: there is no journal, or nothing of ppcd in it.
std::vector<LoggedLine> LinesOfJournal(const std::string& mount, const std::string& runner_pid);

// Turns a line that was logged as a JSON object (ppcd --log-format json) into text.
void TakeObject(LoggedLine* line);

// The lines of ppcd's answer to `log`.
std::vector<LoggedLine> LinesOfAnswer(const Json& answer);

}  // namespace ppc::ctl

#endif  // PPC_EXTRAS_WATCH_LOG_LINES_H_
