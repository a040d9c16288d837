// SPDX-License-Identifier: Apache-2.0
// Owns the log of a program: one line per message on stderr, as text with the priority prefix that
// journald reads when stderr is a journal stream, or as a JSON object; and at what rate, so that
// no service fills the log or hides another's lines.
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

// What a message is about; "" = nothing in particular.  As text a message begins with the
// directory, and has to name the service itself.
struct LogAbout {
  std::string directory;
  std::string service;
};

// The rate of one directory, service and level: lines at once, then one each 50 ms.  Debugging is
// not limited.
inline constexpr unsigned kLogBurst = 200;
inline constexpr uint64_t kLogPeriodNs = 50'000'000;

// "json", and else text; programs that are started by one that logs so do, too.
inline constexpr const char* kLogFormatVariable = "PPC_LOG_FORMAT";

// Before any thread starts.  Messages above `level` are dropped.
void SetLog(const std::string& program, LogLevel level);

// What the whole program is about; told in JSON alone.  Before any thread starts.
void SetLogDirectory(const std::string& directory);

// Keeps the last `lines` messages for RecentLog().  Before any thread starts.
void KeepLog(size_t lines);

struct LogLine {
  uint64_t number = 0;   // from 1
  uint64_t time_ns = 0;  // since 1970
  LogLevel level = LogLevel::kInfo;
  LogAbout about;
  std::string text;  // with the directory
};
// In order; nothing unless KeepLog() was called.
std::vector<LogLine> RecentLog();
// {"number", "time_ns", "priority", "text"}, and "directory" and "service" where they are known.
Json LogLineJson(const LogLine& line);

void Log(LogLevel level, const std::string& message);
void Log(LogLevel level, const LogAbout& about, const std::string& message);

// The service of a policy's message, by how that begins: "maio: service ID: ..."; "" = none.
std::string ServiceNamedBy(std::string_view message);

}  // namespace ppc

#endif  // PPC_DAEMON_BASE_LOG_H_
