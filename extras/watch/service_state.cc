// SPDX-License-Identifier: Apache-2.0
// ppcctl wait, is-active.
#include <poll.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdint>
#include <cstdio>

#include "daemon/base/clock.h"
#include "extras/watch/service_view.h"
#include "tools/ppcctl/extra.h"
#include "tools/ppcctl/output.h"
#include "tools/ppcctl/program_options.h"
#include "tools/ppcctl/spec.h"

namespace ppc::ctl {
namespace {

constexpr unsigned kStateTimeoutMs = 5000;
// Short at first: most waits are for what is about to be.
constexpr int kFirstPauseMs = 50;
constexpr int kLastPauseMs = 1000;

struct Question {
  std::string mount;
  std::string id;  // "" = the directory itself
};

Result<Question> ReadQuestion(const Args& args) {
  const Result<std::string> mount = ReadMount(args);
  if (!mount) return mount.error();
  Question question{*mount, ""};
  if (!HasServiceId(args)) return question;
  const Result<std::string> id = ReadServiceId(args);
  if (!id) return id.error();
  question.id = *id;
  return question;
}

// "" = there is none.
std::string StateOf(const View& view, const Question& question) {
  const auto directory = view.find(question.mount);
  if (directory == view.end()) return "";
  if (question.id.empty()) return directory->second.state;
  const auto service = directory->second.services.find(question.id);
  return service == directory->second.services.end() ? "" : service->second.state;
}

// The state of the directory, and that of the service.  No registration is a state: none.
Result<View> LookAt(DaemonLink& link, const Question& question) {
  Result<View> view = LookAtServices(link, question.mount, /*ask_policies=*/false);
  if (!view && view.error().code == ENOENT && !link.is_unreachable()) return View();
  return view;
}

std::string NameOf(const Question& question) {
  return question.id.empty() ? question.mount : "service " + question.id + " on " + question.mount;
}

int TellState(const Question& question, const std::string& state, bool is_yes) {
  if (WantsJson()) {
    Json answer{{"mount", question.mount}, {"state", state}, {"ok", is_yes}};
    if (!question.id.empty()) answer["service_id"] = question.id;
    PrintJson(answer);
  } else {
    std::printf("%s\n", state.c_str());
  }
  return is_yes ? kExitOk : kExitFailed;
}

}  // namespace

static int IsActive(const Args& args) {
  const Result<Question> question = ReadQuestion(args);
  if (!question) return WrongUsage(question.error().message);
  DaemonLink link(kStateTimeoutMs);
  const Result<View> view = LookAt(link, *question);
  if (!view) return link.Report(view.error());
  const std::string state = StateOf(*view, *question);
  const bool is_active = state == "running" || state == "started" || state == "ready";
  return TellState(*question, state.empty() ? "none" : state, is_active);
}

static int Wait(const Args& args) {
  const Result<Question> question = ReadQuestion(args);
  if (!question) return WrongUsage(question.error().message);
  const std::string goal = args.Get("--for", "ready");
  if (goal != "ready" && goal != "done") {
    return WrongUsage("--for '" + goal + "' is neither ready nor done");
  }
  if (question->id.empty())
    return WrongUsage("which service? give --id ID or --param model=NAME...");
  const Result<unsigned> limit_ms = ReadTimeoutMs(args, 0);
  if (!limit_ms) return WrongUsage(limit_ms.error().message);
  const uint64_t deadline = *limit_ms == 0 ? UINT64_MAX : MonotonicNs() + *limit_ms * kNsPerMs;
  DaemonLink link(kStateTimeoutMs);
  bool was_there = false;
  for (int pause_ms = kFirstPauseMs;; pause_ms = std::min(pause_ms * 3 / 2, kLastPauseMs)) {
    const Result<View> view = LookAt(link, *question);
    if (!view) return link.Report(view.error());
    const std::string state = StateOf(*view, *question);
    const bool is_there = !state.empty();
    if (goal == "done" ? !is_there : state == "ready") {
      return TellState(*question, is_there ? state : "done", true);
    }
    if (goal == "ready" && was_there && !is_there) {
      return Failed(Error{ESRCH, NameOf(*question) + " ended before it was ready"});
    }
    was_there = was_there || is_there;
    const uint64_t now = MonotonicNs();
    if (now >= deadline) {
      return Failed(Error{ETIMEDOUT, NameOf(*question) + " is not " + goal + " after " +
                                         args.Get("--timeout") + " s: it " +
                                         (is_there ? "is " + state : "was not started")});
    }
    const uint64_t left_ms = (deadline - now) / kNsPerMs + 1;
    poll(nullptr, 0,
         static_cast<int>(std::min<uint64_t>(left_ms, static_cast<uint64_t>(pause_ms))));
  }
}

namespace {

constexpr std::array kWaitOptions = {
    kId, kParam, kParams,
    Option{"--for", "WHAT", "ready (default), or done: it has been stopped", 0, "ready done"},
    Option{"--timeout", "SECONDS", "wait at most so long; default: without end"}};
constexpr std::array kServiceName = {kId, kParam, kParams};

const std::array kStateVerbs = {
    cli::Verb{"wait", "Services", "[MNT]",
              "Wait until a service is ready, or done.\n"
              "Exit status 1 when time is up, or it ended before it was ready.",
              kWaitOptions, Wait},
    cli::Verb{"is-active", "Services", "[MNT]",
              "Tell whether a directory's policy runs, or a service is started.\n"
              "Prints the state; exit status 0 if it is so, 1 if not.",
              kServiceName, IsActive},
};

}  // namespace

Extra ServiceStateExtra() { return {.verbs = kStateVerbs, .after = "service-id"}; }

}  // namespace ppc::ctl
