// SPDX-License-Identifier: Apache-2.0
// Owns which mount or directory has which policy, and carries out the operations of the
// control protocol on them.
// Threads: the loop's.
#ifndef PPC_DAEMON_SUPERVISOR_REGISTRY_H_
#define PPC_DAEMON_SUPERVISOR_REGISTRY_H_

#include <sys/types.h>

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "daemon/base/clock.h"
#include "daemon/base/json.h"
#include "daemon/base/rate_limit.h"
#include "daemon/base/result.h"
#include "daemon/base/unique_fd.h"
#include "daemon/supervisor/cgroups.h"
#include "daemon/supervisor/event_loop.h"
#include "daemon/supervisor/memory_broker.h"
#include "daemon/supervisor/metrics.h"
#include "daemon/supervisor/mount_probe.h"
#include "daemon/supervisor/observer_hub.h"
#include "daemon/supervisor/options.h"
#include "daemon/supervisor/peer.h"
#include "daemon/supervisor/registration.h"
#include "daemon/supervisor/state_dir.h"
#include "daemon/wire/protocol.h"

namespace ppc::control {

class Registry {
 public:
  // Called once per request with the whole answer, from within Handle or later.
  using Reply = std::function<void(Json)>;

  // Services that peers of the service socket may have: those of one control group (in a shared
  // one: of one user in it), and those of one user.
  static constexpr size_t kMaxServicesOfGroup = 8;
  static constexpr size_t kMaxServicesOfUser = 64;

  Registry(EventLoop& loop, const Options& options, StateDir state);

  // Takes up what an earlier ppcd had registered.
  void Adopt();

  void Handle(const Request& request, const Peer& peer, const Reply& reply);

  // Once the runners have said what they count.
  void Metrics(MetricsFormat format, const std::function<void(std::string)>& told);

  // "2 directories, 3 services", for people.
  std::string Summary() const;

  // Ends every runner, keeps the state files, then calls `done`.
  void Shutdown(std::function<void()> done);

 private:
  // A process whose end stops a service, or is its failure.
  struct RootWatch {
    UniqueFd pidfd;
  };

  // One line if a policy of another backend has this directory, or the files in it.
  Status CheckBackends(const std::string& path, BackendKind kind);
  Status CheckOverlap(const MountInfo& mount) const;
  void RegPolicy(const Json& body, const Reply& reply);
  void RmPolicy(const Json& body, const Reply& reply);
  void ServiceStart(Json body, const Peer& peer, const Reply& reply);
  void ServiceReady(const Json& body, const Peer& peer, const Reply& reply);
  void ServicePhase(const Json& body, const Peer& peer, const Reply& reply);
  void ServiceStop(const Json& body, const Peer& peer, const Reply& reply);
  // See registry_failed.cc.
  void ServiceFailed(const Json& body, const Peer& peer, const Reply& reply);
  void FailService(Registration& registration, Service& service, const Json& message,
                   const Reply& reply);
  void EndAwaited(const std::string& handle, const std::string& id, uint64_t start);
  void PolicyMessage(const Json& body, const Reply& reply);
  void List(const Reply& reply);
  void ShowStatus(const Json& body, const Reply& reply);
  void ShowOwnStatus(const Json& body, const Peer& peer, const Reply& reply);
  void ShowLog(const Json& body, const Reply& reply);
  // See registry_off.cc.
  void SwitchOff(const Reply& reply);
  void SwitchOn(const Reply& reply);
  void HandleWhileOff(const Request& request, const Reply& reply);
  void RememberPolicy(const Json& body, const Reply& reply);
  Json RememberedMounts() const;
  std::string OffMark() const;
  // What a state file says of a registration.
  static Json SavedState(const MountInfo& mount, const PolicyChoice& choice);
  void ShowMetrics(const Json& body, const Reply& reply);
  void TakeNodeState(const Json& body, const Reply& reply);
  void NoteReady(const Registration& registration, Service& service, const Json& answer);
  // "" = any.
  static bool IsAbout(const std::string& text, const std::string& path);

  Registration& Add(const MountInfo& mount, PolicyChoice choice);
  void Replace(Registration& old, const Json& body, const Reply& reply);
  void Drop(const std::string& key, const std::string& handle);
  void Save(const Registration& registration);
  void Forget(const Registration& gone);
  Result<MountInfo> FindAgain(const Json& state, const std::string& path) const;
  void AdoptOne(const Json& state);
  Result<Registration*> Find(const std::string& path);
  Error NotRegistered(const std::string& path);
  // The innermost that the path is, or lies in; nullptr: none.
  Registration* FindAround(const std::string& path);
  // Another than `but`.
  Registration* FindByPath(const std::string& path, const Registration* but);
  Registration* FindByHandle(const std::string& handle);
  // What a peer of the admin socket, or of the other, means by a path: a mount or directory, or
  // anything inside one.
  Result<Registration*> FindFor(const Peer& peer, const std::string& path);
  // EACCES: it is another's.
  struct Named {
    Registration* registration;
    std::string id;
  };
  Result<Named> FindWithService(const Json& body, const Peer& peer);
  static Result<Service*> FindService(Registration& registration, const std::string& id,
                                      const Peer& peer);
  // May `peer` start it, with this body; and with that process as its root.
  Status CheckStart(Registration& registration, const std::string& id, const Json& body,
                    const Peer& peer);
  Status CheckRoom(const Peer& peer) const;
  Status CheckRoot(const HeldProcess& root, const Peer& peer) const;
  // As a start asks for it.
  std::string IdBeside(Registration& registration, const Service& service) const;
  bool IsRootAlive(const Registration& registration, const Service& service) const;
  Result<Service> NewService(Registration& registration, const Json& body, const Peer& peer);
  // Its cgroup, in the message and as its owner.
  Status Place(Service& service, const Json& body, const Peer& peer) const;
  // Of a start that the policy has not answered in time: whoever asked goes on.
  void AcceptServiceStart(const std::string& handle, const Service& started, const Reply& reply);
  // `reply` is empty where it has been accepted before.
  void FinishServiceStart(const std::string& handle, const Service& started,
                          const Result<Json>& answer, const Reply& reply);
  void StopService(Registration& registration, const std::string& id, const char* reason,
                   std::function<void(Result<Json>)> done);
  void WatchRoot(const std::string& handle, const Service& service);
  void EndOfRoot(const std::string& handle, const std::string& id);
  void UnwatchRoot(const std::string& key);
  // Now and then: of services of the service socket whose control group is gone, the end.
  void WatchGroups();
  Json NativeMounts() const;
  Json DescribeDaemon() const;

  EventLoop& loop_;
  const Options& options_;
  const MountProbe probe_;
  const Cgroups cgroups_;
  StateDir state_;
  ObserverHub observers_;
  MemoryBroker memory_;
  ReadBroker reads_;
  std::map<std::string, std::unique_ptr<Registration>> registrations_;  // by MountInfo::Key
  std::map<std::string, RootWatch> roots_;                              // by handle + "/" + service
  uint64_t next_handle_ = 1;
  uint64_t next_start_ = 1;  // serial of a service_start
  uint64_t started_ns_;
  StartTimes start_times_;
  // What `ppcctl node` has told of this machine; looking for it takes longer than this loop may.
  Json node_state_;
  uint64_t node_state_until_ns_ = 0;
  static constexpr uint64_t kStartPeriodNs = 5 * kNsPerSec;
  RateLimit starts_{16, kStartPeriodNs};
  bool watches_groups_ = false;
  bool is_ending_ = false;
  bool is_off_ = false;
  std::vector<std::function<void()>> on_empty_;  // once no runner is left
};

}  // namespace ppc::control

#endif  // PPC_DAEMON_SUPERVISOR_REGISTRY_H_
