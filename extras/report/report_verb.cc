// SPDX-License-Identifier: Apache-2.0
// ppcctl report: divides a start-up's time into parts.
#include "extras/report/report_verb.h"

#include <cerrno>
#include <chrono>
#include <cstdio>
#include <optional>
#include <thread>

#include "daemon/base/clock.h"
#include "daemon/base/files.h"
#include "daemon/machine/proc_info.h"
#include "extras/report/parts.h"
#include "extras/report/sampler.h"
#include "extras/report/start_report.h"
#include "tools/ppcctl/daemon_link.h"
#include "tools/ppcctl/output.h"
#include "tools/ppcctl/spec.h"

namespace ppc::ctl {
namespace {

constexpr size_t kMostBytes = 64 << 20;
constexpr uint64_t kUnitStartNs = 10 * kNsPerSec;

int Show(const Args& args, const Json& report) {
  if (args.Has("--out")) {
    const Status written = WriteReport(args.Get("--out"), report);
    return written ? kExitOk : Failed(written.error());
  }
  if (WantsJson()) {
    PrintJson(report);
  } else {
    std::printf("%s", ReportText(report).c_str());
  }
  return kExitOk;
}

// Reads a file written by --report or --out.
Result<Json> Saved(const std::string& file) {
  const Result<std::string> text = ReadFile(file, kMostBytes);
  if (!text) return text.error();
  Result<Json> report = ParseJson(*text, file);
  if (!report) return report.error();
  const bool is_one = report->is_object() && report->contains("parts") &&
                      report->contains("limit") && report->contains("progress") &&
                      report->value("schema", 0) == 1;
  if (is_one) return report;
  return Error{EINVAL, file + " is not a report; ppcctl run --report FILE.json writes one"};
}

// A unit's drop-in names the unit; its command may not have begun yet.
Result<int> ProcessOfUnit(const std::string& id, const std::string& cgroup) {
  const SysRoots roots = RootsFromEnvironment();
  const uint64_t end_ns = MonotonicNs() + kUnitStartNs;
  do {
    // ExecStartPre= runs ppcctl itself.
    if (const std::optional<pid_t> first = FirstOfCgroup(roots, cgroup, "ppcctl")) return *first;
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  } while (MonotonicNs() < end_ns);
  return Error{
      ESRCH, "no process of " + cgroup + " runs, whose service " + id + " is; name one with --pid"};
}

// The root process in ppcd's service, or the first of the unit's.
Result<int> ProcessOf(const std::string& mount, const std::string& id) {
  const Outcome outcome = AskOnce({{"op", "status"}, {"mount", mount}});
  if (outcome.exit_status != kExitOk) return Error{ECOMM, ""};
  bool is_there = false;
  for (const Json& directory : outcome.answer.value("mounts", Json::array())) {
    const Json services = directory.value("services", Json::array());
    for (const Json& service : services) {
      if (service.value("service_id", "") != id) continue;
      is_there = true;
      if (service.value("pid", 0) > 0) return service.value("pid", 0);
      // Another kind of group, such as a session's, contains other processes.
      const std::string cgroup = service.value("cgroup", "");
      if (cgroup.ends_with(".service")) return ProcessOfUnit(id, cgroup);
    }
  }
  return Error{ENOENT,
               is_there ? "service " + id + " was told without its process; name it with --pid"
                        : "no service " + id + " in " + mount +
                              " now; a report is made while it starts: ppcctl run --report FILE"};
}

}  // namespace

int Report(const Args& args) {
  if (args.Has("--from")) {
    const Result<Json> report = Saved(args.Get("--from"));
    return report ? Show(args, *report) : Failed(report.error());
  }
  const Result<std::string> mount = ReadMount(args);
  if (!mount) return WrongUsage(mount.error().message);
  const Result<std::string> id = ReadServiceId(args);
  if (!id) return WrongUsage(id.error().message);
  Result<int> pid = 0;
  if (args.Has("--pid")) {
    const Result<int64_t> given = ReadWhole("--pid", args.Get("--pid"), 1);
    if (!given) return WrongUsage(given.error().message);
    pid = static_cast<int>(*given);
  } else {
    pid = ProcessOf(*mount, *id);
    if (!pid) return pid.error().message.empty() ? kExitUnreachable : Failed(pid.error());
  }
  // Only from now on: its past was not watched.
  StartReport report("", *mount, *id, "");
  report.Begin(*pid, MonotonicNs());
  report.Wait();
  return Show(args, report.End());
}

}  // namespace ppc::ctl
