// SPDX-License-Identifier: Apache-2.0
// ppcctl run: a service around a command.  Differs from a bare start only in
// what the policy is told: nothing here may keep the command from running.
#include <sys/wait.h>

#include <cerrno>
#include <cstdlib>
#include <memory>
#include <optional>
#include <string_view>
#include <utility>

#include "daemon/base/clock.h"
#include "daemon/machine/process_end.h"
#include "tools/ppcctl/artifact/run_artifacts.h"
#include "tools/ppcctl/command_words.h"
#include "tools/ppcctl/daemon_link.h"
#include "tools/ppcctl/environment.h"
#include "tools/ppcctl/learnt_model.h"
#include "tools/ppcctl/notify_relay.h"
#include "tools/ppcctl/open_models.h"
#include "tools/ppcctl/report/start_report.h"
#include "tools/ppcctl/run.h"
#include "tools/ppcctl/run_target.h"
#include "tools/ppcctl/running_service.h"
#include "tools/ppcctl/service_env.h"
#include "tools/ppcctl/spec.h"
#include "tools/ppcctl/text.h"
#include "tools/ppcctl/user_dirs.h"
#include "tools/ppcctl/verbs.h"

namespace ppc::ctl {
namespace {

constexpr unsigned kDefaultTimeoutMs = 5000;
// How long the exit status of CMD waits for the policy's end.  Then ppcd goes on alone: our end is
// the service's.
constexpr unsigned kRunEndTimeoutMs = 10000;
// Smaller files do not make a start slow.
constexpr uint64_t kBigFileBytes = 16 << 20;

// What the command opens, for its next start.
class Learning {
 public:
  Learning(const LearntModel& learnt, std::string known)
      : learnt_(learnt), known_(std::move(known)) {}

  void Start(pid_t pid) {
    watch_ = std::make_unique<OpenModelsWatch>(
        RootsFromEnvironment(), pid, kBigFileBytes,
        [this](const FileSizes& files) { Take(LargestModel(files)); });
  }

  // The command has ended: says what was learnt, in one line.
  void Finish() {
    watch_.reset();
    if (!saved_) return Complain("warning: " + saved_.error().message);
    if (opened_ && opened_->model.directory == known_) return;
    if (opened_) {
      Complain("the command read the model in " + opened_->model.directory + " (" +
               HumanBytes(opened_->bytes) + "); its next start is accelerated");
    } else if (known_.empty()) {
      Complain(
          "warning: the command names no model and opened none; name its directory: "
          "ppcctl run DIR -- CMD");
    }
  }

 private:
  void Take(std::optional<OpenedModel> opened) {
    opened_ = std::move(opened);
    // At once: we may be killed with the command.
    if (opened_ && opened_->model.directory != known_) saved_ = learnt_.Save(*opened_);
  }

  const LearntModel& learnt_;
  const std::string known_;  // directory, "" = none
  std::optional<OpenedModel> opened_;
  Status saved_ = Ok();
  std::unique_ptr<OpenModelsWatch> watch_;
};

std::string CommandLine(const std::vector<std::string>& words) {
  std::string line;
  for (const std::string& word : words) line += (line.empty() ? "" : " ") + ShellWord(word);
  return line;
}

Result<StartedService> Start(const ServiceRequest& request, const Target& target,
                             const std::vector<std::string>& words) {
  const Result<ServiceRequest> complete = RequestFor(request, target, words);
  if (!complete) return complete.error();
  return StartService(*complete);
}

std::shared_ptr<RunArtifacts> RestoreArtifacts(const Args& args, const ServiceRequest& request,
                                               const Target& target,
                                               const std::vector<std::string>& words) {
  if (!args.Has("--artifacts")) return nullptr;
  const Result<std::string> id = ArtifactServiceId(request.spec, target, args.command, words);
  if (id) return RunArtifacts::Begin(args, *id);
  Complain("warning: artifacts: " + id.error().message);
  return nullptr;
}

// On other directories that the start reads: each a registration of its own.
using Services = std::vector<std::shared_ptr<RunningService>>;
Services StartOthers(const Args& args, const ServiceRequest& request,
                     const StartedService& started) {
  Services others;
  for (const std::string& given : args.All("--also")) {
    const std::unique_ptr<char, FreeText> real(realpath(given.c_str(), nullptr));
    const int code = errno;
    // A part of it already.
    if (real && (std::string(real.get()) + "/").starts_with(started.mount + "/")) continue;
    const Result<StartedService> other =
        real ? StartBeside(started, real.get(), request)
             : Result<StartedService>(PosixError("--also " + given, code));
    if (other) {
      others.push_back(std::make_shared<RunningService>(other->socket, other->mount, other->id,
                                                        request.timeout_ms));
    } else {
      Complain("warning: " + other.error().message + "; " + given + " is read natively");
    }
  }
  return others;
}

// Beside what this process' environment has.
void AddKeptEnvironment(const Args& args, const Result<std::string>& id, Child* child) {
  if (!args.Has("--env-from-service")) return;
  const auto kept = id ? KeptEnvironment(args, *id)
                       : Result<std::vector<std::pair<std::string, std::string>>>(id.error());
  if (!kept) return Complain("warning: --env-from-service: " + kept.error().message);
  child->environment.insert(child->environment.end(), kept->begin(), kept->end());
}

// nullptr: there can be no socket for it.
std::unique_ptr<NotifyRelay> ListenForReadiness(const std::shared_ptr<RunningService>& service,
                                                const Services& others,
                                                const std::shared_ptr<RunArtifacts>& artifacts,
                                                Child* child) {
  child->on_ready_text = [service, others, artifacts] {
    if (service) service->Ready();
    for (const auto& other : others) other->Ready();
    if (artifacts) artifacts->Ready();
  };
  const auto on_told_ready = [others, artifacts] {
    for (const auto& other : others) other->Ready();
    if (artifacts) artifacts->Ready();
  };
  auto opened = NotifyRelay::Open(child->on_ready_text, on_told_ready);
  if (!opened) return nullptr;
  child->environment.emplace_back("NOTIFY_SOCKET", (*opened)->address());
  return *std::move(opened);
}

// --timeout has been read without an error before.
void EndService(RunningService& service, const Args& args, bool is_private,
                RunningService::Outcome outcome) {
  const Result<unsigned> limit = ReadTimeoutMs(args, kRunEndTimeoutMs);
  // A ppcd of our own ends with us.
  if (is_private && outcome == RunningService::Outcome::kFailed)
    outcome = RunningService::Outcome::kEnded;
  if (service.End(outcome, limit ? *limit : kRunEndTimeoutMs)) return;
  Complain(std::string("warning: the policy takes longer to end the service; ") +
           (is_private ? "what it learnt may be lost" : "it goes on without ppcctl"));
}

RunningService::Outcome OutcomeOf(const Result<int>& status) {
  using enum RunningService::Outcome;
  if (!status || *status == kExitNotExecutable || *status == kExitNotFound) return kEnded;
  if (*status == 0) return kSucceeded;
  return IsFailure(W_EXITCODE(*status, 0)) ? kFailed : kEnded;
}

// What outlives the command, and what the service is called if not as usual.
void SayWhatIsNew(const StartedService& started) {
  if (started.is_new) {
    Complain(started.mount + " has policy '" + started.policy +
             "' from now on; to undo that: ppcctl rm_policy " + ShellWord(started.mount));
  }
  if (started.id != started.name) {
    Complain("service " + started.name + " runs already; this start is its replica " + started.id);
  }
}

void TellChild(const StartedService& started, Child* child) {
  child->environment = {{"PPC_MOUNT", started.mount}, {"PPC_SERVICE_ID", started.id}};
  if (!started.socket.empty()) child->environment.emplace_back("PPC_SOCKET", started.socket);
  if (started.daemon) child->onlooker = started.daemon->pid();
}

std::unique_ptr<StartReport> WantedReport(const Args& args, const Result<StartedService>& started) {
  if (!started || !args.Has("--report")) return nullptr;
  return std::make_unique<StartReport>(started->socket, started->mount, started->id,
                                       CommandLine(args.command));
}

void SaveReport(const Args& args, StartReport* report, const Result<int>& status) {
  if (report == nullptr || !status) return;
  const Status written = WriteReport(args.Get("--report"), report->End(*status == 0));
  if (!written) Complain("warning: " + written.error().message);
}

void GoWithout(const Target& target, const Error& why, Child* child) {
  child->environment = {{kRunVariable, kRunWithout}};
  if (!target.directory.empty()) Complain("warning: " + why.message + "; running without");
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

Result<ServiceRequest> ReadRunRequest(const Args& args) {
  if (!args.Has("--artifacts") && (args.Has("--root") || args.Has("--key"))) {
    return Error{EINVAL, "--root and --key are of artifacts; give --artifacts, too"};
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
  const LearntModel learnt(TemplateDir(), args.command);
  const Result<Target> found = FindTarget(args, words, learnt);
  const Target target = found ? *found : Target{args.operands[0], ""};
  const Result<StartedService> started =
      found ? Start(*request, target, words) : Result<StartedService>(found.error());
  Child child;
  child.command = args.command;
  std::shared_ptr<RunningService> service;
  Services others;
  std::unique_ptr<NotifyRelay> relay;
  if (started) {
    service = std::make_shared<RunningService>(started->socket, started->mount, started->id,
                                               request->timeout_ms);
    SayWhatIsNew(*started);
    TellChild(*started, &child);
    others = StartOthers(args, *request, *started);
  } else if (args.Has("--required")) {
    Complain(started.error());
    return kExitRunFailed;
  } else {
    GoWithout(target, started.error(), &child);
  }
  const Result<std::string> id =
      started ? started->name : ArtifactServiceId(request->spec, target, args.command, words);
  AddKeptEnvironment(args, id, &child);
  const std::shared_ptr<RunArtifacts> artifacts = RestoreArtifacts(args, *request, target, words);
  if (service || artifacts) {
    child.ready_text = args.Get("--ready-on");
    relay = ListenForReadiness(service, others, artifacts, &child);
  }
  Learning learning(learnt, target.directory);
  const std::unique_ptr<StartReport> report = WantedReport(args, started);
  child.on_start = [&](pid_t pid) {
    if (report) report->Begin(pid, MonotonicNs());
    if (relay) relay->Start();
    if (!target.is_in_words) learning.Start(pid);
  };

  const Result<int> status = RunChild(child);
  relay.reset();
  SaveReport(args, report.get(), status);
  const RunningService::Outcome outcome = OutcomeOf(status);
  if (service) EndService(*service, args, started->daemon != nullptr, outcome);
  for (const auto& other : others) EndService(*other, args, started->daemon != nullptr, outcome);
  if (artifacts) artifacts->End(status && *status == 0);
  if (status && !target.is_in_words) learning.Finish();
  return SayEnd(status);
}

}  // namespace ppc::ctl
