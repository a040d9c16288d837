// SPDX-License-Identifier: Apache-2.0
// ppcctl run: a service around a command.  Differs from a bare start only in
// what the policy is told: nothing here may keep the command from running.
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "tools/ppcctl/daemon_link.h"
#include "tools/ppcctl/run.h"
#include "tools/ppcctl/spec.h"
#include "tools/ppcctl/verbs.h"

namespace ppc::ctl {
namespace {

constexpr unsigned kDefaultTimeoutMs = 5000;
// Nobody waits for the end of a service, and the policy writes what it learnt.
constexpr unsigned kEndTimeoutMs = 35000;
constexpr int kExitNotFound = 127;
constexpr int kExitNotExecutable = 126;

// The service as the policy knows it; warns, never fails.
class RunningService {
 public:
  RunningService(std::string mount, std::string id, unsigned timeout_ms)
      : mount_(std::move(mount)), id_(std::move(id)), timeout_ms_(timeout_ms) {}

  void Ready() {
    if (is_ready_) return;
    is_ready_ = true;
    Tell("service_ready");
  }
  void Stop() { Tell("service_stop"); }

 private:
  void Tell(const char* op) const {
    DaemonLink link(std::max(timeout_ms_, kEndTimeoutMs));
    const Result<Json> answer = link.Ask({{"op", op}, {"mount", mount_}, {"service_id", id_}});
    if (!answer) Complain(std::string("warning: ") + op + ": " + answer.error().message);
  }

  const std::string mount_;
  const std::string id_;
  const unsigned timeout_ms_;
  bool is_ready_ = false;
};

// True if CMD already said so itself by `ppcctl service ready`.
bool IsReadyAlready(const std::string& mount, const std::string& id, unsigned timeout_ms) {
  DaemonLink link(timeout_ms);
  const Result<Json> answer = link.Ask({{"op", "status"}, {"mount", mount}});
  if (!answer || !answer->contains("mounts")) return false;
  for (const Json& entry : (*answer)["mounts"]) {
    for (const Json& service : entry.value("services", Json::array())) {
      if (service.value("service_id", "") == id) return service.value("state", "") == "ready";
    }
  }
  return false;
}

}  // namespace

int Run(const Args& args) {
  Result<Json> spec = ReadServiceSpec(args);
  if (!spec) return WrongUsage(spec.error().message);
  const Result<unsigned> timeout = ReadTimeoutMs(args, kDefaultTimeoutMs);
  if (!timeout) return WrongUsage(timeout.error().message);
  const std::string mount = spec->value("mount", "");
  const std::string id = spec->value("service_id", "");
  (*spec)["pid"] = getpid();  // our end, however it comes, ends the service

  bool is_started = true;
  {
    DaemonLink link(*timeout);
    const Result<Json> answer = link.Ask(*spec);
    is_started = answer.ok();
    if (!answer && args.Has("--required")) return link.Report(answer.error());
    if (!answer) Complain("warning: " + answer.error().message + "; running without");
  }
  RunningService service(mount, id, *timeout);
  Child child;
  child.command = args.command;
  child.environment = {"PPC_MOUNT=" + mount, "PPC_SERVICE_ID=" + id};
  if (is_started) {
    child.ready_text = args.Get("--ready-on");
    child.on_ready_text = [&service] { service.Ready(); };
  }
  const Result<int> status = RunChild(child);
  if (is_started) {
    if (status && *status == 0 && !IsReadyAlready(mount, id, *timeout)) service.Ready();
    service.Stop();
  }
  if (status) return *status;
  Complain(status.error().message);
  return status.error().code == ENOENT ? kExitNotFound : kExitNotExecutable;
}

}  // namespace ppc::ctl
