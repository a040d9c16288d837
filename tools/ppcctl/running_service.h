// SPDX-License-Identifier: Apache-2.0
// Owns what is said to a ppcd about a service around a command: registration, start, readiness and
// end.  The messages are the same for a ppcd that runs and a private one.
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
#include "tools/ppcctl/daemon_link.h"

namespace ppc::ctl {

struct ServiceRequest {
  Json spec;              // service_start without "mount"
  std::string directory;  // that the command reads from
  std::string policy;     // "" = what is registered, else maio
  Json config = Json::object();
  unsigned timeout_ms = 0;
};

struct StartedService {
  bool is_private = false;  // at a ppcd for this command alone
  std::string socket;       // "" = the usual one
  std::string mount;        // the directory registered
  std::string id;
  std::string name;     // what is kept of it is by this: several starts at a time share it
  bool is_new = false;  // the directory had no policy before, and keeps it: ppcd goes on
  std::string policy;   // that it has now, if is_new
};

// No ppcd is there, or none that lets this user in: a private one does as well.
bool CallsForPrivateDaemon(int code);

// On a registered directory or below one.
Status StartOn(DaemonLink& link, const std::string& directory, Json spec, StartedService& service);

// Registers the directory where it is not, and starts the service.  `on_registering` is called
// with the directory before what may take long.
Status RegisterAndStart(DaemonLink& link, const ServiceRequest& request, StartedService& service,
                        const std::function<void(const std::string&)>& on_registering);

// The same start on another directory that it reads from, at the same daemon; by an ID of its own.
Result<StartedService> StartBeside(DaemonLink& link, const StartedService& first,
                                   const std::string& directory, ServiceRequest request);

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
