// SPDX-License-Identifier: Apache-2.0
// Owns what `list` and `status` show: of whatever is registered, is native, or is remembered while
// PPC is off.
// Owns the log that ppcd and its runners keep, too.
// Threads: the loop's.
#ifndef PPC_DAEMON_SUPERVISOR_STATUS_PAGE_H_
#define PPC_DAEMON_SUPERVISOR_STATUS_PAGE_H_

#include <cstdint>
#include <string>

#include "daemon/base/clock.h"
#include "daemon/base/json.h"
#include "daemon/base/result.h"
#include "daemon/supervisor/memory_floor.h"
#include "daemon/supervisor/mount_probe.h"
#include "daemon/supervisor/options.h"
#include "daemon/supervisor/peer.h"
#include "daemon/supervisor/registrations.h"
#include "daemon/supervisor/saved_registrations.h"
#include "daemon/supervisor/services.h"
#include "daemon/wire/protocol.h"

namespace ppc::control {

class StatusPage {
 public:
  // All must outlive it.
  StatusPage(const Options& options, const MountProbe& probe, const OffSwitch& off_switch,
             const Registrations& registrations, const SavedRegistrations& saved,
             const MemoryFloor* floor)
      : options_(options),
        probe_(probe),
        off_switch_(off_switch),
        registrations_(registrations),
        saved_(saved),
        floor_(floor) {}

  void List(const Reply& reply) const;
  // Once the runners have said what they count.
  void Show(const Json& body, const Reply& reply) const;
  // For a peer of the service socket: its services only.
  void ShowOwn(const Json& body, const Peer& peer, const Reply& reply) const;
  // "2 directories, 3 services", for people.
  std::string Summary() const;

 private:
  Json Native() const;
  // What is registered again as soon as PPC is switched on.
  Json Remembered() const;
  Json DescribeDaemon() const;

  const Options& options_;
  const MountProbe& probe_;
  const OffSwitch& off_switch_;
  const Registrations& registrations_;
  const SavedRegistrations& saved_;
  const MemoryFloor* const floor_;  // nullptr: none is asked for
  const uint64_t started_ns_ = MonotonicNs();
};

// Owns what ppcd and its runners still know of their logs, for who has no journal.
// Threads: the loop's.
//
// Answers the request log.
void ShowLog(const Registrations& registrations, const Json& body, const Reply& reply);

}  // namespace ppc::control

#endif  // PPC_DAEMON_SUPERVISOR_STATUS_PAGE_H_
