// SPDX-License-Identifier: Apache-2.0
// Owns a service around a command: the daemon for it, one that runs or a private one, its
// registration and start, and telling of its readiness and end.  The messages are the same
// whichever daemon takes them.
#ifndef PPC_TOOLS_PPCCTL_RUNNING_SERVICE_H_
#define PPC_TOOLS_PPCCTL_RUNNING_SERVICE_H_

#include <functional>
#include <future>
#include <memory>
#include <mutex>
#include <string>
#include <utility>

#include "daemon/base/json.h"
#include "daemon/base/result.h"
#include "tools/ppcctl/private_daemon.h"

namespace ppc::ctl {

struct ServiceRequest {
  Json spec;              // service_start without "mount"
  std::string directory;  // that the command reads from
  std::string policy;     // "" = what is registered, else maio
  Json config = Json::object();
  unsigned timeout_ms = 0;
};

struct StartedService {
  std::unique_ptr<PrivateDaemon> daemon;  // nullptr: another runs
  std::string socket;                     // "" = the usual one
  std::string mount;                      // the directory registered
  std::string id;
  std::string name;     // what is kept of it is by this: several starts at a time share it
  bool is_new = false;  // the directory had no policy before, and keeps it: ppcd goes on
  std::string policy;   // that it has now, if is_new
};

// Registers the directory where it is not, and starts the service.
Result<StartedService> StartService(const ServiceRequest& request);

// The same start on another directory that it reads from, at the same daemon; by an ID of its own.
Result<StartedService> StartBeside(const StartedService& first, const std::string& directory,
                                   ServiceRequest request);

// What to register, and what is registered there ("" = nothing), by the "mounts" that `list`
// answers: the directory itself, or one around it that is registered or a ppc mount.
struct Place {
  std::string directory;
  std::string policy;
};
Place FindPlace(const Json& mounts, const ServiceRequest& request);

// The service as the policy knows it; warns once, never fails.  What it tells ppcd it tells in
// threads of its own, one behind the other, which keep it alive.
class RunningService : public std::enable_shared_from_this<RunningService> {
 public:
  RunningService(std::string socket, std::string mount, std::string id, unsigned timeout_ms)
      : socket_(std::move(socket)),
        mount_(std::move(mount)),
        id_(std::move(id)),
        timeout_ms_(timeout_ms) {}

  // By any thread.  Does not wait.
  void Ready();

  enum class Outcome { kSucceeded, kFailed, kEnded };
  // The command has ended; kFailed: another may be started in its place.  False: what there is to
  // tell is not told yet after `limit_ms`.
  bool End(Outcome outcome, unsigned limit_ms);

 private:
  void Later(std::function<void()> function);
  void Tell(const char* op);
  bool IsReadyAlready() const;

  const std::string socket_;
  const std::string mount_;
  const std::string id_;
  const unsigned timeout_ms_;
  std::mutex mutex_;
  std::shared_future<void> last_;  // what was told last
  bool is_ready_ = false;          // of the threads that tell
  bool has_warned_ = false;        // of the threads that tell
};

}  // namespace ppc::ctl

#endif  // PPC_TOOLS_PPCCTL_RUNNING_SERVICE_H_
