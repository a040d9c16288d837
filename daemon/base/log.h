// SPDX-License-Identifier: Apache-2.0
// Owns the log of a program: one line per message on stderr, as text with the priority prefix that
// journald reads if stderr is a journal stream, or as a JSON object; rate limited, so that no
// service fills the log or hides another's lines.
// Threads: any.
#ifndef PPC_DAEMON_BASE_LOG_H_
#define PPC_DAEMON_BASE_LOG_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "daemon/base/json.h"

namespace ppc {

enum class LogLevel : int { kError = 3, kWarning = 4, kInfo = 6, kDebug = 7 };

// Subject of a message; "" = none.  In text, a message begins with the directory and must name the
// service itself.
struct LogAbout {
  std::string directory;
  std::string service;
};

// The rate per directory, service and level: a burst of lines, then one each 50 ms.  Debug lines
// are not limited.
inline constexpr unsigned kLogBurst = 200;
inline constexpr uint64_t kLogPeriodNs = 50'000'000;

// "json", else text; inherited by started programs.
inline constexpr const char* kLogFormatVariable = "PPC_LOG_FORMAT";

// Before any thread starts.  Messages above `level` are dropped.
void SetLog(const std::string& program, LogLevel level);

// The directory that the whole program serves; shown in JSON only.  Before any thread starts.
void SetLogDirectory(const std::string& directory);

// Keeps the last `lines` messages for RecentLog().  Before any thread starts.
void KeepLog(size_t lines);

struct LogLine {
  uint64_t number = 0;   // from 1
  uint64_t time_ns = 0;  // since 1970
  LogLevel level = LogLevel::kInfo;
  LogAbout about;
  std::string text;  // including the directory
};
// In order; empty unless KeepLog() was called.
std::vector<LogLine> RecentLog();
// {"number", "time_ns", "priority", "text"}, and "directory" and "service" if known.
Json LogLineJson(const LogLine& line);

void Log(LogLevel level, const std::string& message);
void Log(LogLevel level, const LogAbout& about, const std::string& message);

// The service in the prefix of a policy's message, "maio: service ID: ..."; "" = none.
std::string ServiceNamedBy(std::string_view message);

}  // namespace ppc

#endif  // PPC_DAEMON_BASE_LOG_H_
