// SPDX-License-Identifier: Apache-2.0
// ppcctl run: a service around a command.  Differs from a bare start only in
// what the policy is told: nothing here may keep the command from running.
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string_view>
#include <utility>
#include <vector>

#include "daemon/base/clock.h"
#include "daemon/machine/proc_info.h"
#include "tools/ppcctl/attachment.h"
#include "tools/ppcctl/command_words.h"
#include "tools/ppcctl/environment.h"
#include "tools/ppcctl/extra.h"
#include "tools/ppcctl/notify_relay.h"
#include "tools/ppcctl/run.h"
#include "tools/ppcctl/run_target.h"
#include "tools/ppcctl/running_service.h"
#include "tools/ppcctl/spec.h"
#include "tools/ppcctl/verbs.h"

namespace ppc::ctl {
namespace {

constexpr unsigned kDefaultTimeoutMs = 5000;
// How long the exit status of CMD waits for the policy's end.  Then ppcd goes on alone: our end is
// the service's.  Beside the first two, 1/50 of CMD's own time.
constexpr unsigned kShortMs = 20;  // for a service that is still being started
constexpr unsigned kTellMs = 200;
constexpr unsigned kShareOfCommand = 50;
// Where our end may be that of ppcd.
constexpr unsigned kRunEndTimeoutMs = 10000;
constexpr unsigned kDaemonEndMs = 12000;
using Parts = std::vector<std::shared_ptr<RunPart>>;

Parts BeginParts(const RunStart& start, Child* child) {
  Parts parts;
  for (const Extra& extra : Extras()) {
    if (extra.begin == nullptr) continue;
    if (auto part = extra.begin(start, child); part) parts.push_back(std::move(part));
  }
  return parts;
}

// nullptr: there can be no socket for it.
std::unique_ptr<NotifyRelay> ListenForReadiness(const std::shared_ptr<Attachment>& attachment,
                                                const Parts& parts, Child* child) {
  child->on_ready_text = [attachment, parts] {
    if (attachment) attachment->Ready();
    for (const auto& part : parts) part->Ready();
  };
  const auto on_told_ready = [attachment, parts] {
    if (attachment) attachment->OthersReady();
    for (const auto& part : parts) part->Ready();
  };
  auto opened = NotifyRelay::Open(child->on_ready_text, on_told_ready);
  if (!opened) return nullptr;
  child->environment.emplace_back("NOTIFY_SOCKET", (*opened)->address());
  return *std::move(opened);
}

// PID 1, or a child of it: all other processes may end with this one.
bool MayEndEverything() { return getpid() == 1 || getppid() == 1; }

// What the exit status may wait for after a command that ran for `ran_ns`.
Attachment::Limits LimitsOfEnd(const Args& args, uint64_t ran_ns) {
  const auto share_ms = static_cast<unsigned>(
      std::min<uint64_t>(ran_ns / kNsPerMs / kShareOfCommand, kRunEndTimeoutMs));
  Attachment::Limits limits{.start_ms = kShortMs + share_ms, .tell_ms = kTellMs + share_ms};
  if (MayEndEverything()) limits = {kRunEndTimeoutMs, kRunEndTimeoutMs, kDaemonEndMs, true};
  // Has been read without an error before.
  if (args.Has("--timeout")) {
    limits.tell_ms = *ReadTimeoutMs(args, kRunEndTimeoutMs);
    limits.warns = true;
  }
  return limits;
}

RunningService::Outcome OutcomeOf(const Result<int>& status) {
  using enum RunningService::Outcome;
  if (!status || *status == kExitNotExecutable || *status == kExitNotFound) return kEnded;
  if (*status == 0) return kSucceeded;
  return IsFailure(W_EXITCODE(*status, 0)) ? kFailed : kEnded;
}

void TellChild(const Attachment::Known& service, Child* child) {
  child->environment = {{"PPC_MOUNT", service.mount}, {"PPC_SERVICE_ID", service.id}};
  if (!service.socket.empty()) child->environment.emplace_back("PPC_SOCKET", service.socket);
  if (!service.is_started) child->environment.emplace_back(kRunVariable, kRunBeside);
  child->ptracer = service.daemon;
}

void GoWithout(const Target& target, const Error& why, Child* child) {
  child->environment = {{kRunVariable, kRunWithout}};
  // What learns the command's model says whether it found one.
  if (target.directory.empty() && LearnsModels()) return;
  Complain("warning: " + why.message + "; running without");
}

int SayEnd(const Result<int>& status) {
  if (status) return *status;
  Complain(status.error());
  return ExitStatusOf(status.error());
}

int RunPlain(const Args& args) {
  Child plain;
  plain.command = args.command;
  return SayEnd(RunChild(plain));
}

// Begins to start the service; returns once the command may run.
Result<std::shared_ptr<Attachment>> Attach(const Args& args, const ServiceRequest& request,
                                           const Target& target,
                                           const std::vector<std::string>& words) {
  const Result<ServiceRequest> complete = RequestFor(request, target, words);
  if (!complete) return complete.error();
  const Result<std::string> id = RunServiceId(complete->spec, target, args.command, words);
  if (!id) return id.error();
  std::shared_ptr<Attachment> attachment =
      Attachment::Begin({.request = *complete, .id = *id, .also = args.All("--also")});
  const bool waits = args.Has("--required") ||
                     std::any_of(Extras().begin(), Extras().end(), [&](const Extra& extra) {
                       return extra.needs_service != nullptr && extra.needs_service(args);
                     });
  const Status status = waits ? attachment->WaitUntilStarted() : attachment->WaitToJoin();
  if (!status) return status.error();
  return attachment;
}

Result<ServiceRequest> ReadRunRequest(const Args& args) {
  for (const Extra& extra : Extras()) {
    if (extra.check == nullptr) continue;
    if (Status status = extra.check(args); !status) return status.error();
  }
  return ReadRequest(args, kDefaultTimeoutMs);
}

}  // namespace

int Run(const Args& args) {
  if (const char* wish = std::getenv("PPC"); wish != nullptr && std::string_view(wish) == "off") {
    return RunPlain(args);
  }
  const Result<ServiceRequest> request = ReadRunRequest(args);
  if (!request) {
    Complain(request.error());
    return kExitRunFailed;
  }
  const std::vector<std::string> words = WordsOf(args.command);
  const Result<Target> found = FindTarget(args, words);
  const Target target = found ? *found : Target{args.operands[0], ""};
  Result<std::shared_ptr<Attachment>> attached =
      found ? Attach(args, *request, target, words) : found.error();
  if (!attached && args.Has("--required")) {
    Complain(attached.error());
    return kExitRunFailed;
  }
  Child child;
  child.command = args.command;
  const std::shared_ptr<Attachment> attachment = attached ? *attached : nullptr;
  if (attachment) {
    TellChild(attachment->known(), &child);
  } else {
    GoWithout(target, attached.error(), &child);
  }
  const Result<std::string> command_name = RunServiceId(request->spec, target, args.command, words);
  const Attachment::Known service = attachment ? attachment->known() : Attachment::Known{};
  const Parts parts = BeginParts({.args = args,
                                  .target = target,
                                  .service = attachment ? &service : nullptr,
                                  .service_name = attachment ? service.name : command_name,
                                  .command_name = command_name},
                                 &child);
  std::unique_ptr<NotifyRelay> relay;
  const bool is_awaited =
      std::ranges::any_of(parts, [](const auto& part) { return part->AwaitsReadiness(); });
  if (attachment || is_awaited) {
    child.ready_text = args.Get("--ready-on");
    relay = ListenForReadiness(attachment, parts, &child);
  }
  uint64_t begin_ns = MonotonicNs();
  child.on_start = [&](pid_t pid) {
    begin_ns = MonotonicNs();
    for (const auto& part : parts) part->Started(pid, begin_ns);
    if (relay) relay->Start();
    if (attachment) attachment->CommandRuns();
  };

  const Result<int> status = RunChild(child);
  const uint64_t ran_ns = MonotonicNs() - begin_ns;
  relay.reset();
  for (const auto& part : parts) part->Ended(status);
  const bool is_over = !attachment || attachment->End(OutcomeOf(status), LimitsOfEnd(args, ran_ns));
  for (const auto& part : parts) part->ServiceStopped(status);
  const int code = SayEnd(status);
  if (is_over) return code;
  // Threads still wait for ppcd, which sees our end.
  std::fflush(nullptr);
  _exit(code);
}

}  // namespace ppc::ctl
