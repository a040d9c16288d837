// SPDX-License-Identifier: Apache-2.0
// ppcctl run: a service around a command.  Differs from a bare start only in
// what the policy is told: nothing here may keep the command from running.
#include <algorithm>
#include <cerrno>
#include <chrono>
#include <functional>
#include <future>
#include <memory>
#include <mutex>
#include <system_error>
#include <thread>
#include <utility>

#include "tools/ppcctl/daemon_link.h"
#include "tools/ppcctl/run.h"
#include "tools/ppcctl/spec.h"
#include "tools/ppcctl/verbs.h"

namespace ppc::ctl {
namespace {

constexpr unsigned kDefaultTimeoutMs = 5000;
// Longer than ppcd waits for the policy, which may write what it learnt.
constexpr unsigned kTellTimeoutMs = 35000;
// How long the exit status of CMD waits for that.  Then ppcd goes on alone: our end is the
// service's.
constexpr unsigned kRunEndTimeoutMs = 10000;

// The service as the policy knows it; warns, never fails.  What it tells ppcd it tells in threads
// of its own, one behind the other, which keep it alive.
class RunningService : public std::enable_shared_from_this<RunningService> {
 public:
  RunningService(std::string mount, std::string id, unsigned timeout_ms)
      : mount_(std::move(mount)), id_(std::move(id)), timeout_ms_(timeout_ms) {}

  // By any thread.  Does not wait.
  void Ready() {
    Later([self = shared_from_this()] {
      if (!std::exchange(self->is_ready_, true)) self->Tell("service_ready");
    });
  }

  // CMD has ended.  False: what there is to tell is not told yet after `limit_ms`.
  bool End(bool has_succeeded, unsigned limit_ms) {
    Later([self = shared_from_this(), has_succeeded] {
      if (has_succeeded && !self->is_ready_ && !self->IsReadyAlready()) self->Tell("service_ready");
      self->Tell("service_stop");
    });
    return last_.wait_for(std::chrono::milliseconds(limit_ms)) == std::future_status::ready;
  }

 private:
  void Later(std::function<void()> function) {
    const std::lock_guard lock(mutex_);
    std::packaged_task<void()> task([before = last_, function = std::move(function)] {
      if (before.valid()) before.wait();
      function();
    });
    last_ = task.get_future().share();
    try {
      std::thread(std::move(task)).detach();
    } catch (const std::system_error& e) {
      Complain(std::string("warning: ppcd is not told: ") + e.what());
    }
  }

  void Tell(const char* op) const {
    DaemonLink link(std::max(timeout_ms_, kTellTimeoutMs));
    const Result<Json> answer = link.Ask({{"op", op}, {"mount", mount_}, {"service_id", id_}});
    if (!answer) Complain(std::string("warning: ") + op + ": " + answer.error().message);
  }

  // True if CMD already said so itself by `ppcctl service ready`.
  bool IsReadyAlready() const {
    DaemonLink link(timeout_ms_);
    const Result<Json> answer = link.Ask({{"op", "status"}, {"mount", mount_}});
    if (!answer || !answer->contains("mounts")) return false;
    for (const Json& entry : (*answer)["mounts"]) {
      for (const Json& service : entry.value("services", Json::array())) {
        if (service.value("service_id", "") == id_) return service.value("state", "") == "ready";
      }
    }
    return false;
  }

  const std::string mount_;
  const std::string id_;
  const unsigned timeout_ms_;
  std::mutex mutex_;
  std::shared_future<void> last_;  // what was told last
  bool is_ready_ = false;          // of the threads that tell
};

}  // namespace

int Run(const Args& args) {
  Result<Json> spec = ReadServiceSpec(args);
  if (!spec) return WrongUsage(spec.error().message);
  const Result<unsigned> timeout = ReadTimeoutMs(args, kDefaultTimeoutMs);
  if (!timeout) return WrongUsage(timeout.error().message);
  const std::string mount = spec->value("mount", "");
  const std::string id = spec->value("service_id", "");
  // Our end, however it comes, ends the service.  ppcd knows our number in its own pid namespace.
  (*spec)["pid"] = 0;

  bool is_started = true;
  {
    DaemonLink link(*timeout);
    const Result<Json> answer = link.Ask(*spec);
    is_started = answer.ok();
    if (!answer && args.Has("--required")) return link.Report(answer.error());
    if (!answer) Complain("warning: " + answer.error().message + "; running without");
  }
  const auto service = std::make_shared<RunningService>(mount, id, *timeout);
  Child child;
  child.command = args.command;
  child.environment = {{"PPC_MOUNT", mount}, {"PPC_SERVICE_ID", id}};
  if (is_started) {
    child.ready_text = args.Get("--ready-on");
    child.on_ready_text = [service] { service->Ready(); };
  }
  const Result<int> status = RunChild(child);
  const unsigned end_timeout = args.Has("--timeout") ? *timeout : kRunEndTimeoutMs;
  if (is_started && !service->End(status && *status == 0, end_timeout)) {
    Complain("warning: the policy takes longer to end the service; it goes on without ppcctl");
  }
  if (status) return *status;
  Complain(status.error().message);
  return status.error().code == ENOENT ? kExitNotFound : kExitNotExecutable;
}

}  // namespace ppc::ctl
