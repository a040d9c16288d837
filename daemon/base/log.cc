// SPDX-License-Identifier: Apache-2.0
#include "daemon/base/log.h"

#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cstdlib>
#include <ctime>
#include <deque>
#include <mutex>
#include <utility>

#include "daemon/base/clock.h"
#include "daemon/base/files.h"
#include "daemon/base/rate_limit.h"

namespace ppc {
namespace {

struct LogState {
  std::string program = "ppc";
  LogLevel level = LogLevel::kInfo;
  bool is_journal = false;
  bool is_json = false;
  std::string directory;
};

// The last messages of all threads.
struct LogRing {
  std::mutex mutex;
  size_t most = 0;
  uint64_t count = 0;
  std::deque<LogLine> lines;
};

struct LogLimit {
  std::mutex mutex;
  RateLimit rate{kLogBurst, kLogPeriodNs};
  uint64_t left_out = 0;  // since the last line written
};

LogRing& Ring() {
  static LogRing ring;
  return ring;
}

LogState& State() {
  static LogState state;
  return state;
}

uint64_t RealTimeNs() {
  timespec now{};
  clock_gettime(CLOCK_REALTIME, &now);
  return static_cast<uint64_t>(now.tv_sec) * 1000000000 + static_cast<uint64_t>(now.tv_nsec);
}

void Keep(uint64_t time_ns, LogLevel level, const LogAbout& about, const std::string& text) {
  LogRing& ring = Ring();
  const std::lock_guard lock(ring.mutex);
  if (ring.most == 0) return;
  if (ring.lines.size() >= ring.most) ring.lines.pop_front();
  ring.lines.push_back(LogLine{++ring.count, time_ns, level, about, text});
}

LogLimit& Limit() {
  static LogLimit limit;
  return limit;
}

// False: the rate is exceeded.  *left_out: how many were left out since the last line, reported
// once.
bool MayLog(LogLevel level, const LogAbout& about, uint64_t* left_out) {
  LogLimit& limit = Limit();
  if (level == LogLevel::kDebug) return true;
  const std::string key =
      about.directory + "\n" + about.service + "\n" + std::to_string(static_cast<int>(level));
  const std::lock_guard lock(limit.mutex);
  if (!limit.rate.Take(key, MonotonicNs())) {
    ++limit.left_out;
    return false;
  }
  *left_out = std::exchange(limit.left_out, 0);
  return true;
}

// If the reader of the log stalls, the writing thread must not block.
bool IsLogRead() {
  pollfd log{STDERR_FILENO, POLLOUT, 0};
  return poll(&log, 1, 0) != 0;
}

// "2026-01-31T12:00:00.123456Z"
std::string TimeText(uint64_t time_ns) {
  const auto seconds = static_cast<std::time_t>(time_ns / 1000000000);
  std::tm parts{};
  gmtime_r(&seconds, &parts);
  std::array<char, 32> text{};
  std::strftime(text.data(), text.size(), "%Y-%m-%dT%H:%M:%S.", &parts);
  const std::string micros = std::to_string(time_ns / 1000 % 1000000);
  return text.data() + std::string(6 - micros.size(), '0') + micros + "Z";
}

std::string JsonLine(uint64_t time_ns, LogLevel level, const LogAbout& about,
                     const std::string& message, uint64_t left_out) {
  const LogState& state = State();
  Json line{{"time", TimeText(time_ns)},
            {"program", state.program},
            {"pid", getpid()},
            {"priority", static_cast<int>(level)},
            {"message", message}};
  const std::string& directory = about.directory.empty() ? state.directory : about.directory;
  if (!directory.empty()) line["directory"] = directory;
  if (!about.service.empty()) line["service"] = about.service;
  if (left_out > 0) line["left_out"] = left_out;
  return DumpJson(line);
}

std::string TextLine(LogLevel level, const std::string& text) {
  const LogState& state = State();
  std::string line;
  if (state.is_journal) line += "<" + std::to_string(static_cast<int>(level)) + ">";
  line += state.program + ": " + text;
  std::replace(line.begin(), line.end(), '\n', ' ');
  return line;
}

}  // namespace

void SetLog(const std::string& program, LogLevel level) {
  const char* format = std::getenv(kLogFormatVariable);
  State() = LogState{program, level, std::getenv("JOURNAL_STREAM") != nullptr,
                     format != nullptr && std::string_view(format) == "json", ""};
}

void SetLogDirectory(const std::string& directory) { State().directory = directory; }

void KeepLog(size_t lines) { Ring().most = lines; }

std::vector<LogLine> RecentLog() {
  LogRing& ring = Ring();
  const std::lock_guard lock(ring.mutex);
  return {ring.lines.begin(), ring.lines.end()};
}

Json LogLineJson(const LogLine& line) {
  Json json{{"number", line.number},
            {"time_ns", line.time_ns},
            {"priority", static_cast<int>(line.level)},
            {"text", line.text}};
  if (!line.about.directory.empty()) json["directory"] = line.about.directory;
  if (!line.about.service.empty()) json["service"] = line.about.service;
  return json;
}

void Log(LogLevel level, const std::string& message) { Log(level, LogAbout{}, message); }

void Log(LogLevel level, const LogAbout& about, const std::string& message) {
  if (level > State().level) return;
  uint64_t left_out = 0;
  if (!MayLog(level, about, &left_out)) return;
  const uint64_t time_ns = RealTimeNs();
  std::string text = about.directory.empty() ? message : about.directory + ": " + message;
  if (left_out > 0) text += " (and " + std::to_string(left_out) + " lines not logged)";
  Keep(time_ns, level, about, text);
  const std::string line = (State().is_json ? JsonLine(time_ns, level, about, message, left_out)
                                            : TextLine(level, text)) +
                           "\n";
  if (!IsLogRead()) {
    LogLimit& limit = Limit();
    const std::lock_guard lock(limit.mutex);
    limit.left_out += left_out + 1;
    return;
  }
  // A failure to write the log cannot be reported anywhere.
  (void)WriteAll(STDERR_FILENO, line.data(), line.size());
}

std::string ServiceNamedBy(std::string_view message) {
  constexpr std::string_view kService = "service ";
  const size_t at = message.find(kService);
  const bool is_first =
      at == 0 || (at != message.npos && at >= 2 && message.substr(at - 2, 2) == ": " &&
                  message.find(": ") == at - 2);
  if (!is_first) return "";
  const std::string_view rest = message.substr(at + kService.size());
  const auto is_of_id = [](char c) {
    return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '.' || c == '_' || c == '-';
  };
  const auto end = std::find_if_not(rest.begin(), rest.end(), is_of_id);
  const bool has_colon = end != rest.end() && *end == ':';
  return has_colon ? std::string(rest.begin(), end) : "";
}

}  // namespace ppc
