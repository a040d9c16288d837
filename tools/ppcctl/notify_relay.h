// SPDX-License-Identifier: Apache-2.0
// Owns a socket of sd_notify(3) for a child: sees its READY=1, and passes all it says on to our
// own $NOTIFY_SOCKET, whose reader may take it from this process alone.  `ppcctl service ready`
// says kToldReady there, which is for us alone. Threads: one of its own, which calls the handlers.
#ifndef PPC_TOOLS_PPCCTL_NOTIFY_RELAY_H_
#define PPC_TOOLS_PPCCTL_NOTIFY_RELAY_H_

#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <utility>

#include "daemon/base/result.h"
#include "daemon/base/unique_fd.h"

namespace ppc::ctl {

// ppcd knows already that the service is ready.
inline constexpr const char* kToldReady = "X_PPC_READY=1";

class NotifyRelay {
 public:
  // What to set NOTIFY_SOCKET to for the child is address().
  static Result<std::unique_ptr<NotifyRelay>> Open(std::function<void()> on_ready,
                                                   std::function<void()> on_told_ready);
  // Takes what was sent before.
  ~NotifyRelay();
  NotifyRelay(const NotifyRelay&) = delete;
  NotifyRelay& operator=(const NotifyRelay&) = delete;

  // Once, after signals are blocked.
  void Start();

  const std::string& address() const { return address_; }

 private:
  NotifyRelay(std::function<void()> on_ready, std::function<void()> on_told_ready)
      : on_ready_(std::move(on_ready)), on_told_ready_(std::move(on_told_ready)) {}
  void Run();
  bool TakeOne();

  const std::function<void()> on_ready_;
  const std::function<void()> on_told_ready_;
  std::string address_;
  std::string upstream_;
  UniqueFd socket_;
  UniqueFd stop_;  // eventfd
  std::thread thread_;
};

}  // namespace ppc::ctl

#endif  // PPC_TOOLS_PPCCTL_NOTIFY_RELAY_H_
