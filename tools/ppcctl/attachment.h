// SPDX-License-Identifier: Apache-2.0
// Owns the service of a command of `run`, from the search for a ppcd to the service's end.  ppcd is
// asked in a thread of this object's own, so the command need not wait for it.  Nothing in here
// keeps the command from running.
// Threads: that of Begin(); Ready() and OthersReady() by any.
#ifndef PPC_TOOLS_PPCCTL_ATTACHMENT_H_
#define PPC_TOOLS_PPCCTL_ATTACHMENT_H_

#include <sys/types.h>

#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "daemon/base/result.h"
#include "tools/ppcctl/daemon_link.h"
#include "tools/ppcctl/private_daemon.h"
#include "tools/ppcctl/running_service.h"

namespace ppc::ctl {

class Attachment : public std::enable_shared_from_this<Attachment> {
 public:
  struct Options {
    ServiceRequest request;
    std::string id;                 // of the service, unless ppcd says another
    std::vector<std::string> also;  // other directories that the start reads
  };
  // A private ppcd is started by this thread, which must live as long as the command.
  static std::shared_ptr<Attachment> Begin(Options options);

  // Waits for a ppcd that runs, for 250 ms at most.  An error: there is no service.
  Status WaitToJoin();
  Status WaitUntilStarted();

  // What is known of the service now.
  struct Known {
    std::string socket;  // "" = the usual one
    std::string mount;
    std::string id;
    std::string name;  // what is kept of it is by this
    pid_t daemon = 0;  // 0: no private one
    bool is_started = false;
  };
  Known known() const;

  // The command runs from now on: what becomes of the service is said in lines of ours.
  void CommandRuns();

  // Remembered until the service has started.  Does not wait.
  void Ready();
  // As Ready(), where the command has told ppcd itself of its first directory.
  void OthersReady();

  // What the exit status of the command waits for, at most.
  struct Limits {
    unsigned start_ms = 0;   // for a service that is being started
    unsigned tell_ms = 0;    // for the policy to end it
    unsigned daemon_ms = 0;  // for a private ppcd to end
    bool warns = false;      // where the policy takes longer
  };
  // The command has ended.  False: threads of ours still run, so only _exit() is safe.
  bool End(RunningService::Outcome outcome, const Limits& limits);

 private:
  enum class Stage { kAsking, kWantsPrivate, kRegistering, kStarted, kFailed };

  explicit Attachment(Options options) : options_(std::move(options)) {}
  void InThread(void (Attachment::*function)());
  void AskRunning();
  void AskPrivate();
  void RequestPrivate();
  Status StartPrivate();
  void RegisterAndStart(DaemonLink& link);
  void Started();
  void Failed(Error why);
  void Decide(Stage stage);
  void StartOthers();
  void Move(Stage stage);
  bool IsDecided() const { return stage_ == Stage::kStarted || stage_ == Stage::kFailed; }
  void SayHowItWent() const;

  const Options options_;
  std::unique_ptr<DaemonLink> link_;  // of the thread, once it runs

  mutable std::mutex mutex_;
  std::condition_variable moved_;
  Stage stage_ = Stage::kAsking;
  StartedService service_;  // written before kStarted, and read by others only then
  std::string mount_;       // once it is known
  std::unique_ptr<PrivateDaemon> daemon_;
  std::optional<Error> why_;
  bool may_start_private_ = true;  // until the command runs
  bool command_runs_ = false;
  bool is_ready_ = false;
  bool are_others_ready_ = false;
  std::vector<std::shared_ptr<RunningService>> told_;  // the first is that of the wish
};

}  // namespace ppc::ctl

#endif  // PPC_TOOLS_PPCCTL_ATTACHMENT_H_
