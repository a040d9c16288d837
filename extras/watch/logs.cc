// SPDX-License-Identifier: Apache-2.0
// ppcctl logs: from the journal if it has something of ppcd, else what ppcd keeps itself.
#include <array>
#include <cstdio>
#include <string>
#include <vector>

#include "extras/watch/log_lines.h"
#include "tools/ppcctl/daemon_link.h"
#include "tools/ppcctl/extra.h"
#include "tools/ppcctl/output.h"
#include "tools/ppcctl/program_options.h"
#include "tools/ppcctl/spec.h"
#include "tools/ppcctl/text.h"

namespace ppc::ctl {
namespace {

constexpr int kUsualLines = 100;

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

static int Logs(const Args& args) {
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
  std::vector<LoggedLine> lines = LinesOfJournal(mount, RunnerOf(mount));
  if (lines.empty()) {
    Json request{{"op", "log"}};
    if (!mount.empty()) request["mount"] = mount;
    const Outcome outcome = AskOnce(request);
    if (outcome.exit_status != kExitOk) return outcome.exit_status;
    lines = LinesOfAnswer(outcome.answer);
    source = "ppcd";
  }
  if (const std::string id = args.Get("--id"); !id.empty()) {
    // The journal has text alone, if that is the format; "svc-1" is not "svc-12".
    const std::string named = " service " + id;
    std::erase_if(lines, [&](const LoggedLine& line) {
      const std::string text = line.text + " ";
      return line.service != id && text.find(named + " ") == std::string::npos &&
             text.find(named + ":") == std::string::npos;
    });
  }
  if (lines.empty()) {
    Complain("nothing is logged" + (mount.empty() ? "" : " of " + mount) +
             (args.Has("--id") ? " of service " + args.Get("--id") : ""));
  }
  if (std::ssize(lines) > *most) lines.erase(lines.begin(), lines.end() - *most);
  Json list = Json::array();
  for (const LoggedLine& line : lines) {
    if (WantsJson()) {
      list.push_back(
          {{"time", LocalTime(line.time_ns)}, {"priority", line.priority}, {"text", line.text}});
      if (!line.directory.empty()) list.back()["directory"] = line.directory;
      if (!line.service.empty()) list.back()["service"] = line.service;
    } else {
      std::printf("%s  %s\n", LocalTime(line.time_ns).c_str(), line.text.c_str());
    }
  }
  if (WantsJson()) PrintJson({{"source", source}, {"lines", list}});
  return kExitOk;
}

namespace {

constexpr std::array kLogsOptions = {Option{"--id", "ID", "what is about this service alone"},
                                     Option{"--lines", "N", "the last N (default 100)", 'n'}};

const std::array kLogsVerbs = {
    cli::Verb{
        "logs", "State", "[MNT]",
        "Show what was logged of a directory, or of all.\n"
        "By ppcd and its runners from the journal if there is one, else what ppcd still knows.",
        kLogsOptions, Logs},
};

}  // namespace

Extra LogsExtra() { return {.verbs = kLogsVerbs, .after = "events"}; }

}  // namespace ppc::ctl
