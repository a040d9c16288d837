// SPDX-License-Identifier: Apache-2.0
// `ppcctl report`, and `ppcctl run --report FILE`.
#include <array>
#include <memory>
#include <string>

#include "extras/report/report_verb.h"
#include "extras/report/start_report.h"
#include "tools/ppcctl/extra.h"
#include "tools/ppcctl/output.h"
#include "tools/ppcctl/program_options.h"
#include "tools/ppcctl/text.h"

namespace ppc::ctl {
namespace {

std::string CommandLine(const std::vector<std::string>& words) {
  std::string line;
  for (const std::string& word : words) line += (line.empty() ? "" : " ") + ShellWord(word);
  return line;
}

class RunReport : public RunPart {
 public:
  RunReport(const Args& args, const Attachment::Known& service)
      : file_(args.Get("--report")),
        report_(service.socket, service.mount, service.id, CommandLine(args.command)) {}

  void Started(pid_t pid, uint64_t begin_ns) override { report_.Begin(pid, begin_ns); }

  void Ended(const Result<int>& status) override {
    if (!status) return;
    const Status written = WriteReport(file_, report_.End(*status == 0));
    if (!written) Complain("warning: " + written.error().message);
  }

 private:
  const std::string file_;
  StartReport report_;
};

bool IsWanted(const Args& args) { return args.Has("--report"); }

std::shared_ptr<RunPart> Begin(const RunStart& start, Child* /*child*/) {
  if (!IsWanted(start.args) || start.service == nullptr || !start.service->is_started) {
    return nullptr;
  }
  return std::make_shared<RunReport>(start.args, *start.service);
}

constexpr std::array kReportOptions = {
    kId,
    kParam,
    kParams,
    Option{"--pid", "PID", "its process; default: as the service was started"},
    Option{"--out", "FILE", "write it there: .html, .md, .json, or lines"},
    Option{"--from", "FILE.json", "show one that was written before"}};

const std::array kReportVerbs = {
    cli::Verb{
        "report", "State", "[MNT]",
        "Tell what a start-up's time went to, and what limits it.\n"
        "Watches a service that is starting until it is ready: before the model is read, waiting\n"
        "for the disk, in the kernel, own work, without a CPU, asleep.  ppcctl run --report FILE\n"
        "does so from the very beginning; --from shows such a FILE.json later.",
        kReportOptions, Report},
};
constexpr std::array kReportRunOptions = {
    cli::Option{"--report", "FILE",
                "write what the start-up's time went to: .html, .md, .json, or lines"},
};

}  // namespace

Extra ReportExtra() {
  return {.verbs = kReportVerbs,
          .run_options = kReportRunOptions,
          .needs_service = IsWanted,  // a report covers the whole start
          .begin = Begin};
}

}  // namespace ppc::ctl
