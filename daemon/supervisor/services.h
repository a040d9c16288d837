// SPDX-License-Identifier: Apache-2.0
// Owns the services that were started on one mount: what a restarted runner
// is told again, and what `status` shows.
// Threads: the loop's.
#ifndef PPC_DAEMON_SUPERVISOR_SERVICES_H_
#define PPC_DAEMON_SUPERVISOR_SERVICES_H_

#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "daemon/base/json.h"
#include "daemon/base/result.h"
#include "daemon/supervisor/rights.h"

namespace ppc::control {

struct Service {
  std::string id;
  uint32_t number = 0;       // what lists of the policy call it
  Json message;              // the service_start message as sent to the runner
  bool is_pending = true;    // its caller has not been told yet that it is accepted
  bool is_starting = false;  // the policy has not answered, but the caller has been told
  bool is_new = false;       // of the registration itself, and no runner has been told of it yet
  uint64_t start = 0;        // serial of the latest service_start sent for it
  uint64_t started_ns = 0;   // when that was asked; 0: before this ppcd
  bool is_ready = false;
  bool is_failed = false;     // its next start is awaited, see service_ends.h
  pid_t root_pid = 0;         // 0: not watched
  uint64_t pid_start_ns = 0;  // so that a reused number is not taken for it
  Owner owner;

  // The runner has the last word on the number, it charges by it: takes it out of its answer
  // to a start.  False: it is the same, or the answer has none.
  bool TakeNumber(const Json& answer);
  // What a runner that takes over is told.
  Json Resumption() const;
};

// The service that a registration's configuration names, not started yet; `message` as
// ServiceInConfig() makes it.
Service OwnService(Json message);

class Services {
 public:
  static constexpr size_t kMaxServices = 256;

  // The number the service has, or will have when Put.
  Result<uint32_t> NumberFor(const std::string& id) const;
  void Put(Service service);
  void Remove(const std::string& id);
  Service* Find(const std::string& id);
  // Its readers have begun another start.  False: there is no such service.
  bool BeginAgain(const std::string& id);
  // The one that `peer` means by `id` on `directory`.  EACCES: it is another's.
  Result<Service*> FindFor(const Peer& peer, const std::string& id, const std::string& directory);
  // A serial for Service::start.
  uint64_t NextStart() { return next_start_++; }

  size_t size() const { return services_.size(); }

  // "a, b" for messages; "none".  Those that `peer` may touch.
  std::string Names(const Peer& peer) const;
  // The accepted ones, in order of their numbers.
  std::vector<Service*> InOrder();
  // For status; those that `peer` may touch.
  Json Describe(const Peer& peer) const;
  // Those that peers of the service socket have started and `is_counted` says so.
  std::vector<std::string> Claimed(const std::function<bool(const Owner&)>& is_counted) const;

  // JSON for the state file; only `changed` is not as it was the last time ("": all may be).
  std::string Save(const std::string& changed) const;
  void Restore(const Json& saved);

 private:
  // The first replica of service `id` that `peer` may touch; nullptr: none.
  Service* FindReplica(const std::string& id, const Peer& peer);

  std::map<std::string, Service> services_;
  mutable std::map<std::string, std::string> entries_;  // of the state file, by service
  uint64_t next_start_ = 1;
};

}  // namespace ppc::control

#endif  // PPC_DAEMON_SUPERVISOR_SERVICES_H_
