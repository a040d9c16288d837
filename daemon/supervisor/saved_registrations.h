// SPDX-License-Identifier: Apache-2.0
// Owns what a state file says of a registration, so that it outlives ppcd: written whenever it
// changes, and read by the next ppcd, or as soon as PPC is switched on again.
// Threads: the loop's.
#ifndef PPC_DAEMON_SUPERVISOR_SAVED_REGISTRATIONS_H_
#define PPC_DAEMON_SUPERVISOR_SAVED_REGISTRATIONS_H_

#include <optional>
#include <string>
#include <vector>

#include "daemon/base/json.h"
#include "daemon/base/result.h"
#include "daemon/supervisor/mount_probe.h"
#include "daemon/supervisor/registration.h"
#include "daemon/supervisor/state_dir.h"

namespace ppc::control {

struct SavedRegistration {
  MountInfo mount;
  PolicyChoice choice;
  Json services;                      // null: it has not run yet; for Services::Restore
  std::optional<std::string> failed;  // why
};

class SavedRegistrations {
 public:
  // Both must outlive it.
  SavedRegistrations(const StateDir& state, const MountProbe& probe)
      : state_(state), probe_(probe) {}

  // With its services, of which only `changed` is not as it was the last time ("": all may be).
  // Nothing where its mount is gone: the file may be its successor's.
  void Save(const Registration& registration, const std::string& changed = "") const;
  // One that does not run, and has no services.
  Status Save(const MountInfo& mount, const PolicyChoice& choice) const;
  void Remove(const std::string& path) const { state_.Remove(path); }

  // Those whose directory is still what it was; the others are forgotten.
  std::vector<SavedRegistration> Load() const;
  // All, for lists, as they are while PPC is off.
  Json Describe() const;

 private:
  Result<MountInfo> FindAgain(const Json& state, const std::string& path) const;
  std::optional<SavedRegistration> Parse(const Json& state) const;

  const StateDir& state_;
  const MountProbe& probe_;
};

}  // namespace ppc::control

#endif  // PPC_DAEMON_SUPERVISOR_SAVED_REGISTRATIONS_H_
