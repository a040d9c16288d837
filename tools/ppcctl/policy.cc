// SPDX-License-Identifier: Apache-2.0
// ppcctl reg_policy, rm_policy, policy.
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <string>

#include "daemon/backend/backend_kind.h"
#include "daemon/wire/protocol.h"
#include "tools/ppcctl/daemon_link.h"
#include "tools/ppcctl/spec.h"
#include "tools/ppcctl/user_dirs.h"
#include "tools/ppcctl/verbs.h"

namespace ppc::ctl {
namespace {

int AskWithTimeout(const Args& args, const Json& request, Json* answer = nullptr) {
  const Result<unsigned> timeout = ReadTimeoutMs(args, 0);
  if (!timeout) return WrongUsage(timeout.error().message);
  Outcome outcome = AskOnce(request, *timeout);
  if (answer != nullptr) *answer = std::move(outcome.answer);
  return outcome.exit_status;
}

std::string Directories(const Json& answer, const char* one, const char* several) {
  const auto count = answer.value("directories", uint64_t{0});
  return std::to_string(count) + (count == 1 ? " directory" : " directories") +
         (count == 1 ? one : several);
}

// Which other registration would have had these files, for who did not mean it.
void SayWhatIsAround(const std::string& mount) {
  DaemonLink link;
  const Result<Json> list = link.Ask({{"op", "list"}});
  if (!list) return;
  for (const Json& entry : list->value("mounts", Json::array())) {
    const std::string other = entry.value("mount", "");
    if (entry.value("state", "") == "native" || other.empty()) continue;
    if (mount.starts_with(other + "/")) {
      std::printf("  it lies in %s, whose policy leaves it to this one\n", other.c_str());
    } else if (other.starts_with(mount + "/")) {
      std::printf("  %s in it keeps its own policy\n", other.c_str());
    }
  }
}

}  // namespace

int RegPolicy(const Args& args) {
  const Result<std::string> mount = ReadMount(args);
  if (!mount) return WrongUsage(mount.error().message);
  Json request{{"op", "reg_policy"}, {"mount", *mount}, {"policy", args.operands[1]}};
  if (args.operands.size() > 2) {
    const Result<Json> config = ReadObject(args.operands[2], "config");
    if (!config) return WrongUsage(config.error().message);
    request["config"] = *config;
  }
  if (args.Has("--backend")) {
    const Result<BackendKind> kind = ParseBackendKind(args.Get("--backend"));
    if (!kind) return WrongUsage(kind.error().message);
    request["backend"] = BackendName(*kind);
  }
  Json answer;
  const int status = AskWithTimeout(args, request, &answer);
  if (status == kExitOk && WantsJson()) {
    answer.erase("ok");
    answer["mount"] = *mount;
    answer["policy"] = args.operands[1];
    PrintJson(answer);
  } else if (status == kExitOk && answer.value("state", "") == "off") {
    std::printf("%s: policy '%s' is remembered; PPC is off, ppcctl on\n", mount->c_str(),
                args.operands[1].c_str());
  } else if (status == kExitOk) {
    std::printf("%s: policy '%s' %s, backend %s\n", mount->c_str(), args.operands[1].c_str(),
                answer.value("existing", false) ? "was registered already" : "registered",
                answer.value("backend", "unknown").c_str());
    SayWhatIsAround(*mount);
  }
  return status;
}

int RmPolicy(const Args& args) {
  const Result<std::string> mount = ReadMount(args);
  if (!mount) return WrongUsage(mount.error().message);
  const int status = AskWithTimeout(args, {{"op", "rm_policy"}, {"mount", *mount}});
  if (status != kExitOk) return status;
  if (WantsJson()) {
    PrintJson({{"mount", *mount}, {"policy", nullptr}});
  } else {
    std::printf("%s: policy removed\n", mount->c_str());
  }
  return status;
}

int Off(const Args& args) {
  Json answer;
  const int status = AskWithTimeout(args, {{"op", "off"}}, &answer);
  if (status != kExitOk) return status;
  if (answer.contains("warning")) Complain("warning: " + answer.value("warning", ""));
  if (WantsJson()) {
    answer.erase("ok");
    PrintJson(answer);
  } else {
    std::printf("off: %s the kernel's alone, until `ppcctl on`\n",
                Directories(answer, " is", " are").c_str());
  }
  return status;
}

int On(const Args& args) {
  const Result<unsigned> timeout = ReadTimeoutMs(args, 0);
  if (!timeout) return WrongUsage(timeout.error().message);
  DaemonLink link(*timeout);
  Result<Json> asked = link.Ask({{"op", "on"}});
  // No ppcd could do it where only those of single commands run.
  if (!asked && link.is_unreachable() && asked.error().code != ETIMEDOUT) {
    if (unlink(control::OffMark(TemplateDir()).c_str()) == 0) asked = Json{{"directories", 0}};
  }
  if (!asked) return link.Report(asked.error());
  Json answer = *std::move(asked);
  if (WantsJson()) {
    answer.erase("ok");
    PrintJson(answer);
  } else {
    std::printf("on: %s\n", Directories(answer, " has its policy", " have policies").c_str());
  }
  return kExitOk;
}

int PolicyMessage(const Args& args) {
  const Result<std::string> mount = ReadMount(args);
  if (!mount) return WrongUsage(mount.error().message);
  const Result<Json> message = ReadObject(args.operands[1], "message");
  if (!message) return WrongUsage(message.error().message);
  Json answer;
  const int status =
      AskWithTimeout(args, {{"op", "policy"}, {"mount", *mount}, {"message", *message}}, &answer);
  if (status != kExitOk) return status;
  const Json reply = answer.value("reply", Json::object());
  PrintJson(WantsJson() ? Json{{"mount", *mount}, {"reply", reply}} : reply);
  return status;
}

}  // namespace ppc::ctl
