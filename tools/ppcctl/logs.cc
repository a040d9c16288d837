// SPDX-License-Identifier: Apache-2.0
// ppcctl logs: from the journal if it has something of ppcd, else what ppcd keeps itself.
#include <algorithm>
#include <array>
#include <charconv>
#include <cstdio>
#include <ctime>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tools/ppcctl/daemon_link.h"
#include "tools/ppcctl/spec.h"
#include "tools/ppcctl/verbs.h"

namespace ppc::ctl {
namespace {

constexpr int kUsualLines = 100;
// The journal's own, of which those of one directory are taken.
constexpr const char* kJournal =
    "journalctl --quiet --no-pager --output=json --lines=5000 _COMM=ppcd + _COMM=ppc-runner "
    "2>/dev/null";

struct Line {
  uint64_t time_ns = 0;
  int priority = 6;
  std::string text;
};

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

// Nothing: there is no journal, or nothing of ppcd in it.  A runner's lines name no directory, but
// it has but one.
std::vector<Line> FromJournal(const std::string& mount, const std::string& runner_pid) {
  std::vector<Line> lines;
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
    Line line{JournalNumber(*entry, "__REALTIME_TIMESTAMP") * 1000,
              static_cast<int>(JournalNumber(*entry, "PRIORITY")), JournalText(*entry, "MESSAGE")};
    const bool is_runners = !runner_pid.empty() && JournalText(*entry, "_PID") == runner_pid;
    if (mount.empty() || is_runners || line.text.find(mount) != std::string::npos) {
      lines.push_back(std::move(line));
    }
  }
  return lines;
}

std::vector<Line> FromDaemon(const Json& answer) {
  std::vector<Line> lines;
  for (const Json& entry : answer.value("lines", Json::array())) {
    lines.push_back(Line{entry.value("time_ns", uint64_t{0}), entry.value("priority", 6),
                         entry.value("text", "")});
  }
  return lines;
}

std::string TimeOf(uint64_t time_ns) {
  const auto seconds = static_cast<std::time_t>(time_ns / 1000000000);
  std::tm parts{};
  localtime_r(&seconds, &parts);
  std::array<char, 32> text{};
  std::strftime(text.data(), text.size(), "%Y-%m-%dT%H:%M:%S%z", &parts);
  return text.data();
}

std::string RunnerOf(const std::string& mount) {
  if (mount.empty()) return "";
  DaemonLink link;
  const Result<Json> status = link.Ask({{"op", "status"}, {"mount", mount}});
  if (!status) return "";
  for (const Json& entry : status->value("mounts", Json::array())) {
    if (entry.contains("pid")) return DumpJson(entry["pid"]);
  }
  return "";
}

}  // namespace

int Logs(const Args& args) {
  const Result<int64_t> most =
      ReadWhole("--lines", args.Get("--lines", std::to_string(kUsualLines)), 1);
  if (!most) return WrongUsage(most.error().message);
  std::string mount;
  if (!args.operands.empty()) {
    const Result<std::string> given = ReadMount(args);
    if (!given) return WrongUsage(given.error().message);
    mount = *given;
  }
  std::string source = "journal";
  std::vector<Line> lines = FromJournal(mount, RunnerOf(mount));
  if (lines.empty()) {
    Json request{{"op", "log"}};
    if (!mount.empty()) request["mount"] = mount;
    const Outcome outcome = AskOnce(request);
    if (outcome.exit_status != kExitOk) return outcome.exit_status;
    lines = FromDaemon(outcome.answer);
    source = "ppcd";
  }
  if (std::ssize(lines) > *most) lines.erase(lines.begin(), lines.end() - *most);
  Json list = Json::array();
  for (const Line& line : lines) {
    if (WantsJson()) {
      list.push_back(
          {{"time", TimeOf(line.time_ns)}, {"priority", line.priority}, {"text", line.text}});
    } else {
      std::printf("%s  %s\n", TimeOf(line.time_ns).c_str(), line.text.c_str());
    }
  }
  if (WantsJson()) PrintJson({{"source", source}, {"lines", list}});
  return kExitOk;
}

}  // namespace ppc::ctl
