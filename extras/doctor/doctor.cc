// SPDX-License-Identifier: Apache-2.0
// ppcctl doctor: finds what keeps services from starting faster, with remedies.
#include <array>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <memory>

#include "extras/doctor/checks.h"
#include "tools/ppcctl/extra.h"
#include "tools/ppcctl/output.h"
#include "tools/ppcctl/program_options.h"
#include "tools/ppcctl/spec.h"
#include "tools/ppcctl/text.h"

namespace ppc::ctl {
namespace {

constexpr unsigned kAskTimeoutMs = 3000;

void Print(const Findings& findings, size_t directories) {
  size_t problems = 0;
  for (const Finding& finding : findings) {
    problems += finding.is_problem ? 1 : 0;
    const std::string about = finding.about.empty() ? "" : finding.about + ": ";
    std::printf("%s %s: %s%s\n  remedy: %s\n", finding.is_problem ? "problem" : "note",
                finding.code.c_str(), about.c_str(), finding.cause.c_str(), finding.remedy.c_str());
  }
  if (directories == 0) {
    std::printf(
        "no registered directory is known here, so nothing is accelerated: ppcctl run DIR -- CMD, "
        "or "
        "as root ppcctl reg_policy DIR maio\n");
  }
  std::printf("%zu %s, %zu %s looked at\n", problems, problems == 1 ? "problem" : "problems",
              directories, directories == 1 ? "directory" : "directories");
}

}  // namespace

Findings Examine(const SystemSnapshot& snapshot) {
  Findings findings;
  CheckDaemon(snapshot, &findings);
  CheckMachine(snapshot, &findings);
  for (const DirectorySnapshot& dir : snapshot.directories) {
    CheckDirectory(snapshot, dir, &findings);
    CheckServices(snapshot, dir, &findings);
    CheckReaders(snapshot, dir, &findings);
  }
  CheckCommand(snapshot, &findings);
  return findings;
}

Json FindingsJson(const Findings& findings) {
  Json list = Json::array();
  for (const Finding& finding : findings) {
    list.push_back({{"code", finding.code},
                    {"about", finding.about},
                    {"cause", finding.cause},
                    {"remedy", finding.remedy},
                    {"problem", finding.is_problem}});
  }
  return list;
}

static int Doctor(const Args& args) {
  const Result<unsigned> timeout = ReadTimeoutMs(args, kAskTimeoutMs);
  if (!timeout) return WrongUsage(timeout.error().message);
  std::string directory;
  if (!args.operands.empty()) {
    const std::unique_ptr<char, FreeText> real(realpath(args.operands[0].c_str(), nullptr));
    if (!real) return Failed(PosixError(args.operands[0], errno));
    directory = real.get();
  }
  SystemSnapshot snapshot = TakeSnapshot(directory, *timeout);
  snapshot.command = args.command;
  const Findings findings = Examine(snapshot);
  bool has_problem = false;
  for (const Finding& finding : findings) has_problem = has_problem || finding.is_problem;
  if (WantsJson()) {
    PrintJson({{"findings", FindingsJson(findings)}, {"directories", snapshot.directories.size()}});
  } else {
    Print(findings, snapshot.directories.size());
  }
  return has_problem ? kExitFailed : kExitOk;
}

namespace {

const std::array kDoctorExtraVerbs = {
    cli::Verb{
        "doctor", "State", "[DIR] [-- CMD [ARG]...]",
        "Find out what keeps services from starting faster, and what to do about it.\n"
        "Looks at the kernel, ppcd, the directory (default: all that are registered), its\n"
        "services and who reads it; with CMD also at the options of that command.  Changes\n"
        "nothing, and reads nothing of models but a page where a FUSE server is in doubt.  Each\n"
        "finding has a code, the cause and a remedy.  Exit status 1 if there are problems; notes\n"
        "are none.",
        kTimeoutOnly, Doctor},
};

}  // namespace

Extra DoctorExtra() { return {.verbs = kDoctorExtraVerbs}; }

}  // namespace ppc::ctl
