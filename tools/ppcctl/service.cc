// SPDX-License-Identifier: Apache-2.0
// ppcctl service start|ready|phase|failed|stop, service-id and bind-pid.
#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>

#include "daemon/wire/notify.h"
#include "daemon/wire/service_id.h"
#include "tools/ppcctl/daemon_link.h"
#include "tools/ppcctl/environment.h"
#include "tools/ppcctl/notify_relay.h"
#include "tools/ppcctl/spec.h"
#include "tools/ppcctl/verbs.h"

namespace ppc::ctl {
namespace {

// The policy writes what it learnt meanwhile.
constexpr unsigned kEndTimeoutMs = 35000;

// `ppcctl run` went on without a service, or PPC is off for this command: its script goes on, too.
bool IsNobodyToTell(const Args& args) {
  return args.operands.empty() && FromEnvironment("PPC_MOUNT").empty() &&
         (FromEnvironment("PPC") == "off" || FromEnvironment(kRunVariable) == kRunWithout);
}

int TellNobody() {
  if (WantsJson()) PrintJson({{"told", false}});
  return kExitOk;
}

// The command that asks may be ahead of its own service, or that could not be started.
bool IsAheadOfService(const Args& args, const Error& why, bool is_unreachable) {
  return args.operands.empty() && FromEnvironment(kRunVariable) == kRunBeside &&
         (is_unreachable || why.code == ENOENT);
}

int Tell(const Args& args, const Json& request, unsigned timeout_ms) {
  DaemonLink link(timeout_ms);
  const Result<Json> answer = link.Ask(request);
  if (answer) return kExitOk;
  if (IsAheadOfService(args, answer.error(), link.is_unreachable())) return TellNobody();
  return link.Report(answer.error());
}

int TellAboutService(const Args& args, const char* op, const Json& more = Json::object()) {
  if (IsNobodyToTell(args)) return TellNobody();
  const Result<std::string> mount = ReadMount(args);
  if (!mount) return WrongUsage(mount.error().message);
  const Result<std::string> id = ReadServiceId(args);
  if (!id) return WrongUsage(id.error().message);
  const Result<unsigned> timeout = ReadTimeoutMs(args, kEndTimeoutMs);
  if (!timeout) return WrongUsage(timeout.error().message);
  Json request{{"op", op}, {"mount", *mount}, {"service_id", *id}};
  request.update(more);
  return Tell(args, request, *timeout);
}

}  // namespace

int ServiceStart(const Args& args) {
  const Result<Json> spec = ReadServiceSpec(args);
  if (!spec) return WrongUsage(spec.error().message);
  const Result<unsigned> timeout = ReadTimeoutMs(args, 0);
  if (!timeout) return WrongUsage(timeout.error().message);
  Json request = *spec;
  // A caller that waits for ppcd waits for the policy's answer, too.
  if (*timeout != 0) request["wait_ms"] = *timeout / 10 * 9;
  const Outcome outcome = AskOnce(request, *timeout);
  if (outcome.exit_status != kExitOk) return outcome.exit_status;
  if (WantsJson()) {
    Json answer = outcome.answer;
    answer.erase("ok");
    PrintJson(answer);
  } else {
    std::printf("%s\n", outcome.answer.value("service_id", "").c_str());
  }
  return kExitOk;
}

int ServiceReady(const Args& args) {
  const int status = TellAboutService(args, "service_ready");
  const Result<std::string> id = ReadServiceId(args);
  // `ppcctl run` around this service has more to do then.
  const bool is_own = IsNobodyToTell(args) || (id && *id == FromEnvironment("PPC_SERVICE_ID"));
  if (status == kExitOk && is_own) {
    control::NotifySystemd(kToldReady);
  }
  return status;
}

int ServicePhase(const Args& args) {
  constexpr std::array kPhases = {"init", "weights", "compile", "graphs", "ready"};
  const auto is_phase = [&](const std::string& word) {
    return std::ranges::find(kPhases, word) != kPhases.end();
  };
  // [ID] PHASE [MNT]: the last of the first two that is one.  Other verbs have MNT first.
  Args named = args;
  if (args.operands.size() == 2 && args.operands[0].find('/') != std::string::npos &&
      is_phase(args.operands[1])) {
    std::swap(named.operands[0], named.operands[1]);
    return ServicePhase(named);
  }
  const size_t words = args.operands.size();
  const bool has_id = words > 1 && is_phase(args.operands[1]);
  const std::string phase = words == 0 ? "" : args.operands[has_id ? 1 : 0];
  if (!is_phase(phase)) {
    return WrongUsage("which phase? init, weights, compile, graphs or ready" +
                      (phase.empty() ? "" : ", not '" + phase + "'"));
  }
  if (has_id) named.options["--id"] = {args.operands[0]};
  const size_t used = has_id ? 2 : 1;
  named.operands.assign(args.operands.begin() + static_cast<std::ptrdiff_t>(used),
                        args.operands.end());
  if (phase == "ready") return ServiceReady(named);
  if (IsNobodyToTell(named)) return TellNobody();
  const Result<std::string> mount = ReadMount(named);
  if (!mount) return WrongUsage(mount.error().message);
  const Result<std::string> id = ReadServiceId(named);
  if (!id) return WrongUsage(id.error().message);
  const Result<unsigned> timeout = ReadTimeoutMs(named, 0);
  if (!timeout) return WrongUsage(timeout.error().message);
  const Json request{
      {"op", "service_phase"}, {"mount", *mount}, {"service_id", *id}, {"phase", phase}};
  return Tell(named, request, *timeout);
}

int ServiceFailed(const Args& args) {
  Json more = Json::object();
  if (args.Has("--within")) {
    const Result<int64_t> seconds = ReadWhole("--within", args.Get("--within"), 1);
    if (!seconds) return WrongUsage(seconds.error().message);
    more["wait_s"] = *seconds;
  }
  return TellAboutService(args, "service_failed", more);
}

int ServiceStop(const Args& args) { return TellAboutService(args, "service_stop"); }

int ServiceId(const Args& args) {
  const Result<Json> params = ReadParams(args);
  if (!params) return WrongUsage(params.error().message);
  const Result<control::ServiceName> name = control::MakeServiceName(*params);
  if (!name) return WrongUsage(name.error().message);
  if (WantsJson()) {
    PrintJson({{"service_id", name->id}, {"canonical", name->canonical}});
    return kExitOk;
  }
  std::printf("%s\n", name->id.c_str());
  if (args.Has("--verbose")) std::printf("%s\n", name->canonical.c_str());
  return kExitOk;
}

int BindPid(const Args& args) {
  const Result<int64_t> pid = ReadWhole("process", args.operands[0], 1);
  if (!pid) return WrongUsage(pid.error().message);
  Args rest = args;
  rest.operands.erase(rest.operands.begin());
  const Result<std::string> mount = ReadMount(rest);
  if (!mount) return WrongUsage(mount.error().message);
  const Result<std::string> id = ReadServiceId(args);
  if (!id) return WrongUsage(id.error().message);
  if (!args.Has("--worker")) return WrongUsage("which worker? give --worker N");
  const Result<int64_t> worker = ReadWhole("--worker", args.Get("--worker"));
  if (!worker) return WrongUsage(worker.error().message);
  const Outcome outcome = AskOnce(
      {{"op", "policy"},
       {"mount", *mount},
       {"message", {{"op", "bind_pid"}, {"service_id", *id}, {"pid", *pid}, {"worker", *worker}}}});
  if (outcome.exit_status == kExitOk && WantsJson()) {
    PrintJson({{"mount", *mount}, {"service_id", *id}, {"pid", *pid}, {"worker", *worker}});
  }
  return outcome.exit_status;
}

}  // namespace ppc::ctl
