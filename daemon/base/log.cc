// SPDX-License-Identifier: Apache-2.0
#include "daemon/base/log.h"

#include <unistd.h>

#include <cstdlib>
#include <ctime>
#include <deque>
#include <mutex>

#include "daemon/base/files.h"

namespace ppc {
namespace {

struct LogState {
  std::string program = "ppc";
  LogLevel level = LogLevel::kInfo;
  bool journal = false;
};

// The last messages, of any thread.
struct LogRing {
  std::mutex mutex;
  size_t most = 0;
  uint64_t count = 0;
  std::deque<LogLine> lines;
};

LogRing& Ring() {
  static LogRing ring;
  return ring;
}

void Keep(LogLevel level, const std::string& message) {
  LogRing& ring = Ring();
  const std::lock_guard lock(ring.mutex);
  if (ring.most == 0) return;
  timespec now{};
  clock_gettime(CLOCK_REALTIME, &now);
  if (ring.lines.size() >= ring.most) ring.lines.pop_front();
  const uint64_t time_ns =
      static_cast<uint64_t>(now.tv_sec) * 1000000000 + static_cast<uint64_t>(now.tv_nsec);
  ring.lines.push_back(LogLine{++ring.count, time_ns, level, message});
}

LogState& State() {
  static LogState state;
  return state;
}

}  // namespace

void SetLog(const std::string& program, LogLevel level) {
  State() = LogState{program, level, std::getenv("JOURNAL_STREAM") != nullptr};
}

void KeepLog(size_t lines) { Ring().most = lines; }

std::vector<LogLine> RecentLog() {
  LogRing& ring = Ring();
  const std::lock_guard lock(ring.mutex);
  return {ring.lines.begin(), ring.lines.end()};
}

void Log(LogLevel level, const std::string& message) {
  const LogState& state = State();
  if (level > state.level) return;
  Keep(level, message);
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
