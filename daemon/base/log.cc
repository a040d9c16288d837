// SPDX-License-Identifier: Apache-2.0
#include "daemon/base/log.h"

#include <unistd.h>

#include <cstdlib>

#include "daemon/base/files.h"

namespace ppc {
namespace {

struct LogState {
  std::string program = "ppc";
  LogLevel level = LogLevel::kInfo;
  bool journal = false;
};

LogState& State() {
  static LogState state;
  return state;
}

}  // namespace

void SetLog(const std::string& program, LogLevel level) {
  State() = LogState{program, level, std::getenv("JOURNAL_STREAM") != nullptr};
}

void Log(LogLevel level, const std::string& message) {
  const LogState& state = State();
  if (level > state.level) return;
  std::string line;
  if (state.journal) line += "<" + std::to_string(static_cast<int>(level)) + ">";
  line += state.program + ": " + message;
  for (char& c : line) {
    if (c == '\n') c = ' ';
  }
  line += '\n';
  // A log that cannot be written has nobody to tell.
  (void)WriteAll(STDERR_FILENO, line.data(), line.size());
}

}  // namespace ppc
