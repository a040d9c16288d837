// SPDX-License-Identifier: Apache-2.0
// ppcctl explain-pid: which worker and XPU a process is taken for, and why.
#include <array>
#include <cstdio>
#include <vector>

#include "tools/ppcctl/daemon_link.h"
#include "tools/ppcctl/extra.h"
#include "tools/ppcctl/output.h"
#include "tools/ppcctl/spec.h"

namespace ppc::ctl {
namespace {

// "worker 1, XPU 3 (0000:3b:00.0), node 1"; what is not known is left out.
std::string Binding(const Json& answer) {
  if (answer.value("xpu", -1) < 0) return "no XPU";
  std::string text;
  if (answer.value("worker", -1) >= 0)
    text = "worker " + std::to_string(answer.value("worker", 0)) + ", ";
  text += "XPU " + std::to_string(answer.value("xpu", 0));
  const std::string bdf = answer.value("bdf", "");
  if (!bdf.empty()) text += " (" + bdf + ")";
  const int node = answer.value("node", -1);
  return text + (node >= 0 ? ", node " + std::to_string(node) : ", node unknown");
}

void Print(const Json& answer) {
  const std::string service = answer.value("service_id", "");
  std::printf("%s  pid %d  %s: %s%s\n", answer.value("mount", "").c_str(), answer.value("pid", 0),
              service.empty() ? "no service" : ("service " + service).c_str(),
              Binding(answer).c_str(),
              answer.value("decided", false) ? "" : "  (has not read anything yet)");
  for (const Json& provider : answer.value("providers", Json::array())) {
    const bool knows = provider.contains("xpu");
    std::printf("  %s %-11s %-34s %s\n", provider.value("wins", false) ? "*" : " ",
                provider.value("provider", "").c_str(), knows ? Binding(provider).c_str() : "-",
                provider.value("says", "").c_str());
  }
}

// The mounts that have a policy.
Outcome AskForMounts(std::vector<std::string>* mounts) {
  Outcome outcome = AskOnce({{"op", "list"}});
  if (outcome.exit_status != kExitOk) return outcome;
  for (const Json& mount : outcome.answer.value("mounts", Json::array())) {
    if (mount.value("state", "") != "native") mounts->push_back(mount.value("mount", ""));
  }
  if (!mounts->empty()) return outcome;
  Complain("no mount has a policy; see ppcctl reg_policy");
  outcome.exit_status = kExitFailed;
  return outcome;
}

}  // namespace

static int ExplainPid(const Args& args) {
  const Result<int64_t> pid = ReadWhole("process", args.operands[0], 1);
  if (!pid) return WrongUsage(pid.error().message);
  std::vector<std::string> mounts(args.operands.begin() + 1, args.operands.end());
  if (mounts.empty()) {
    const Outcome outcome = AskForMounts(&mounts);
    if (outcome.exit_status != kExitOk) return outcome.exit_status;
  }
  Json all = Json::array();
  for (const std::string& mount : mounts) {
    const Outcome outcome = AskOnce(
        {{"op", "policy"}, {"mount", mount}, {"message", {{"op", "explain_pid"}, {"pid", *pid}}}});
    if (outcome.exit_status != kExitOk) return outcome.exit_status;
    Json answer = outcome.answer.value("reply", Json::object());
    answer["mount"] = mount;
    all.push_back(std::move(answer));
  }
  if (WantsJson()) {
    PrintJson({{"mounts", all}});
    return kExitOk;
  }
  for (const Json& answer : all) Print(answer);
  return kExitOk;
}

namespace {

const std::array kExplainVerbs = {
    cli::Verb{
        "explain-pid",
        "Services",
        "PID [MNT]",
        "Show which worker and XPU the process PID is taken for.\n"
        "What each provider says, in the order in which they are asked, and which one counts (*).\n"
        "Default: on all mounts.",
        {},
        ExplainPid},
};

}  // namespace

Extra ExplainExtra() { return {.verbs = kExplainVerbs, .after = "bind-pid"}; }

}  // namespace ppc::ctl
