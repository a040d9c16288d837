// SPDX-License-Identifier: Apache-2.0
#include "extras/watch/log_lines.h"

#include <array>
#include <charconv>
#include <cstdio>
#include <ctime>
#include <memory>
#include <utility>

namespace ppc::ctl {
namespace {

// The journal's own, of which those of one directory are taken.
constexpr const char* kJournal =
    "journalctl --quiet --no-pager --output=json --lines=5000 _COMM=ppcd + _COMM=ppc-runner "
    "2>/dev/null";

struct ClosePipe {
  void operator()(FILE* pipe) const { pclose(pipe); }
};

std::string JournalText(const Json& object, const char* key) {
  const auto it = object.find(key);
  return it != object.end() && it->is_string() ? it->get<std::string>() : "";
}

uint64_t JournalNumber(const Json& object, const char* key) {
  const std::string text = JournalText(object, key);
  uint64_t number = 0;
  std::from_chars(text.data(), text.data() + text.size(), number);
  return number;
}

}  // namespace

// A runner's lines name no directory, but it has but one.
std::vector<LoggedLine> LinesOfJournal(const std::string& mount, const std::string& runner_pid) {
  std::vector<LoggedLine> lines;
  const std::unique_ptr<FILE, ClosePipe> pipe(popen(kJournal, "re"));
  if (!pipe) return lines;
  std::string text;
  std::array<char, 65536> buffer;
  while (std::fgets(buffer.data(), static_cast<int>(buffer.size()), pipe.get()) != nullptr) {
    text += buffer.data();
    if (text.back() != '\n') continue;
    const Result<Json> entry = ParseJsonObject(text, "line of the journal");
    text.clear();
    if (!entry) continue;
    LoggedLine line;
    line.time_ns = JournalNumber(*entry, "__REALTIME_TIMESTAMP") * 1000;
    line.priority = static_cast<int>(JournalNumber(*entry, "PRIORITY"));
    line.text = JournalText(*entry, "MESSAGE");
    const bool is_runners = !runner_pid.empty() && JournalText(*entry, "_PID") == runner_pid;
    TakeObject(&line);
    if (mount.empty() || is_runners || line.text.find(mount) != std::string::npos) {
      lines.push_back(std::move(line));
    }
  }
  return lines;
}

void TakeObject(LoggedLine* line) {
  if (!line->text.starts_with('{')) return;
  const Result<Json> object = ParseJsonObject(line->text, "line");
  if (!object || !object->contains("message")) return;
  line->directory = JournalText(*object, "directory");
  line->service = JournalText(*object, "service");
  line->priority = object->value("priority", line->priority);
  line->text = JournalText(*object, "program") + ": " +
               (line->directory.empty() ? "" : line->directory + ": ") +
               JournalText(*object, "message");
}

std::vector<LoggedLine> LinesOfAnswer(const Json& answer) {
  std::vector<LoggedLine> lines;
  for (const Json& entry : answer.value("lines", Json::array())) {
    LoggedLine line;
    line.time_ns = entry.value("time_ns", uint64_t{0});
    line.priority = entry.value("priority", 6);
    line.text = entry.value("text", "");
    line.directory = entry.value("directory", "");
    line.service = entry.value("service", "");
    lines.push_back(std::move(line));
  }
  return lines;
}

}  // namespace ppc::ctl
