// SPDX-License-Identifier: Apache-2.0
// Owns the log of a program: one line per message on stderr, with the priority
// prefix that journald reads when stderr is a journal stream.
// Threads: any.
#ifndef PPC_DAEMON_BASE_LOG_H_
#define PPC_DAEMON_BASE_LOG_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace ppc {

enum class LogLevel : int { kError = 3, kWarning = 4, kInfo = 6, kDebug = 7 };

// Before any thread starts.  Messages above `level` are dropped.
void SetLog(const std::string& program, LogLevel level);

// Keeps the last `lines` messages for RecentLog().  Before any thread starts.
void KeepLog(size_t lines);

struct LogLine {
  uint64_t number = 0;   // from 1
  uint64_t time_ns = 0;  // since 1970
  LogLevel level = LogLevel::kInfo;
  std::string text;
};
// In order; nothing unless KeepLog() was called.
std::vector<LogLine> RecentLog();

void Log(LogLevel level, const std::string& message);

}  // namespace ppc

#endif  // PPC_DAEMON_BASE_LOG_H_
