// SPDX-License-Identifier: Apache-2.0
// Owns the observer's programs for all runners of this ppcd: loaded with the first directory that
// needs them, gone with the last, attached while a runner wants them.
// Threads: the loop's.
#ifndef PPC_DAEMON_SUPERVISOR_OBSERVER_HUB_H_
#define PPC_DAEMON_SUPERVISOR_OBSERVER_HUB_H_

#include <cstdint>
#include <memory>

#include "daemon/backend/observer/program_set.h"
#include "daemon/base/result.h"
#include "daemon/machine/roots.h"
#include "daemon/supervisor/event_loop.h"

namespace ppc::control {

class ObserverHub {
 public:
  // One directory's; ends with it.  The hub must outlive it.
  class Client {
   public:
    Client(ObserverHub& hub, uint32_t dir) : hub_(hub), dir_(dir) {}
    ~Client() { hub_.Leave(dir_); }
    Client(const Client&) = delete;
    Client& operator=(const Client&) = delete;

    uint32_t Directory() const { return dir_; }
    // What its runner needs.
    Result<ObserverFds> Share() const { return hub_.set_->Share(dir_); }
    // The runner died.
    void ClearWants() { hub_.set_->ClearWants(dir_); }

   private:
    ObserverHub& hub_;
    const uint32_t dir_;
  };

  ObserverHub(EventLoop& loop, const SysRoots& roots) : loop_(loop), roots_(roots) {}
  ~ObserverHub();
  ObserverHub(const ObserverHub&) = delete;
  ObserverHub& operator=(const ObserverHub&) = delete;

  // Takes 0.1 s where the programs are not loaded.
  Result<std::unique_ptr<Client>> Enter();

 private:
  void Leave(uint32_t dir);
  void Unload();

  EventLoop& loop_;
  const SysRoots roots_;
  std::unique_ptr<ObserverProgramSet> set_;
};

}  // namespace ppc::control

#endif  // PPC_DAEMON_SUPERVISOR_OBSERVER_HUB_H_
