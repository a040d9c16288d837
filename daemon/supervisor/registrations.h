// SPDX-License-Identifier: Apache-2.0
// Owns the registrations that there are, and which of them a path means.
// Threads: the loop's.
#ifndef PPC_DAEMON_SUPERVISOR_REGISTRATIONS_H_
#define PPC_DAEMON_SUPERVISOR_REGISTRATIONS_H_

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "daemon/backend/backend_kind.h"
#include "daemon/base/result.h"
#include "daemon/supervisor/mount_probe.h"
#include "daemon/supervisor/peer.h"
#include "daemon/supervisor/registration.h"

namespace ppc::control {

// Owns whether PPC is switched off on this machine: every directory is the kernel's alone, also
// after a reboot, which a file beside the templates is for.
// Threads: the loop's.
class OffSwitch {
 public:
  // As the file says.
  explicit OffSwitch(const std::string& template_dir);

  bool is_off() const { return is_off_; }
  // The file.
  const std::string& mark() const { return mark_; }

  // Off all the same where this fails, until a reboot.
  Status TurnOff();
  // True: it was off.
  Result<bool> TurnOn();

  // Operations fail with this error while PPC is off.
  static Error Refusal();

 private:
  const std::string mark_;
  bool is_off_;
};

class Registrations {
 public:
  using ByKey = std::map<std::string, std::unique_ptr<Registration>>;

  // Both must outlive it.
  Registrations(const MountProbe& probe, const OffSwitch& off_switch)
      : probe_(probe), off_switch_(off_switch) {}

  const ByKey& all() const { return all_; }  // by MountInfo::Key

  // In the place of what has its key.
  Registration& Put(std::unique_ptr<Registration> registration);
  void Erase(const std::string& key);
  // Once, after the last is erased; not where there is none.
  void WhenEmpty(std::function<void()> told) { on_empty_.push_back(std::move(told)); }

  // nullptr: none.
  Registration* FindByKey(const std::string& key) const;
  Registration* FindByHandle(const std::string& handle) const;
  // Another than `but`.
  Registration* FindByPath(const std::string& path, const Registration* but = nullptr) const;
  // The innermost that the path is, or lies in.
  Registration* FindAround(const std::string& path) const;

  // Finds a mount or directory that is registered itself; ENOENT says where one is.
  Result<Registration*> Find(const std::string& path) const;
  // What a peer of the admin socket, or of the other, means by a path: a mount or directory, or
  // anything inside one.
  Result<Registration*> FindFor(const Peer& peer, const std::string& path) const;

  // One line if a policy of another backend has this directory, or the files in it: two policies
  // would load and drop the same pages.
  Status CheckBackends(const std::string& path, BackendKind kind) const;
  Status CheckOverlap(const MountInfo& mount) const;

 private:
  Error NotRegistered(const std::string& path) const;

  const MountProbe& probe_;
  const OffSwitch& off_switch_;
  ByKey all_;
  std::vector<std::function<void()>> on_empty_;
};

}  // namespace ppc::control

#endif  // PPC_DAEMON_SUPERVISOR_REGISTRATIONS_H_
