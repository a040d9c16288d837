// SPDX-License-Identifier: Apache-2.0
#include "daemon/supervisor/registrations.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

#include "daemon/base/files.h"
#include "daemon/base/log.h"
#include "daemon/base/unique_fd.h"
#include "daemon/machine/mount_table.h"
#include "daemon/wire/protocol.h"

namespace ppc::control {

Registration& Registrations::Put(std::unique_ptr<Registration> registration) {
  const std::string key = registration->mount().Key();
  return *(all_[key] = std::move(registration));
}

void Registrations::Erase(const std::string& key) {
  all_.erase(key);
  if (!all_.empty()) return;
  for (const std::function<void()>& told : std::exchange(on_empty_, {})) told();
}

Registration* Registrations::FindByKey(const std::string& key) const {
  const auto it = all_.find(key);
  return it == all_.end() ? nullptr : it->second.get();
}

Registration* Registrations::FindByHandle(const std::string& handle) const {
  for (const auto& [key, registration] : all_) {
    if (registration->handle() == handle) return registration.get();
  }
  return nullptr;
}

Registration* Registrations::FindByPath(const std::string& path, const Registration* but) const {
  for (const auto& [key, registration] : all_) {
    if (registration.get() != but && registration->mount().path == path) return registration.get();
  }
  return nullptr;
}

Registration* Registrations::FindAround(const std::string& path) const {
  Registration* innermost = nullptr;
  for (const auto& [key, registration] : all_) {
    const std::string& top = registration->mount().path;
    const bool is_around = IsBelow(path, top);
    if (!is_around || (innermost != nullptr && innermost->mount().path.size() >= top.size())) {
      continue;
    }
    innermost = registration.get();
  }
  return innermost;
}

Error Registrations::NotRegistered(const std::string& path) const {
  if (off_switch_.is_off()) return OffSwitch::Refusal();
  std::string where = "no policy is registered on " + path;
  if (const Registration* around = FindAround(path); around != nullptr) {
    const std::string& top = around->mount().path;
    return Error{ENOENT, where + " itself: it lies in " + top + ", which has policy '" +
                             around->choice().name + "'; name that one"};
  }
  return Error{ENOENT, where + "; run ppcctl reg_policy " + path + " POLICY"};
}

Result<Registration*> Registrations::Find(const std::string& path) const {
  const Result<MountInfo> mount = probe_.Find(path);
  if (mount) {
    Registration* known = FindByKey(mount->Key());
    if (known != nullptr && known->mount().IsSame(*mount)) return known;
    // The directory below a mount that came later.
    if (Registration* plain = FindByKey(mount->path); plain != nullptr) return plain;
    return NotRegistered(mount->path);
  }
  // By name: a directory, or a mount that is gone already.
  if (Registration* registration = FindByPath(NormalPath(path))) return registration;
  if (mount.error().code != ENODEV) return mount.error();
  return NotRegistered(NormalPath(path));
}

Result<Registration*> Registrations::FindFor(const Peer& peer, const std::string& path) const {
  const std::string normal = NormalPath(path);
  if (peer.is_admin) {
    Result<Registration*> found = Find(path);
    Registration* around = found || found.error().code != ENOENT ? nullptr : FindAround(normal);
    return around == nullptr ? std::move(found) : around;
  }
  if (Registration* innermost = FindAround(normal); innermost != nullptr) return innermost;
  return Error{ENOENT, "no policy is registered on " + normal + " or above it; root does so: " +
                           "ppcctl reg_policy " + normal + " POLICY"};
}

Status Registrations::CheckBackends(const std::string& path, BackendKind kind) const {
  const Registration* old = FindByPath(NormalPath(path));
  if (old == nullptr || old->Serves(kind) || old->state() == Registration::State::kFailed ||
      old->state() == Registration::State::kDraining || !probe_.IsThere(old->mount())) {
    return Ok();
  }
  return Error{EBUSY, old->mount().path + " has policy '" + old->choice().name + "' on backend " +
                          old->Backend() + ", not " + BackendName(kind) +
                          "; run ppcctl rm_policy " + old->mount().path + " first"};
}

Status Registrations::CheckOverlap(const MountInfo& mount) const {
  for (const auto& [key, registration] : all_) {
    const MountInfo& other = registration->mount();
    if (key == mount.Key()) continue;
    const bool is_alias = mount.is_plain && other.is_plain && mount.node != 0 &&
                          mount.node == other.node && mount.dev == other.dev;
    const MountInfo& plain = mount.is_plain ? mount : other;
    const MountInfo& shown = mount.is_plain ? other : mount;
    const bool is_shown = mount.is_plain != other.is_plain && !shown.base.empty() &&
                          (IsBelow(plain.path, shown.base) || IsBelow(shown.base, plain.path));
    if (!is_alias && !is_shown) continue;
    return Error{EBUSY, mount.path + " has files of " + other.path + ", which has policy '" +
                            registration->choice().name + "' on backend " +
                            registration->Backend() + "; run ppcctl rm_policy " + other.path +
                            " first"};
  }
  return Ok();
}

OffSwitch::OffSwitch(const std::string& template_dir)
    : mark_(OffMark(template_dir)), is_off_(access(mark_.c_str(), F_OK) == 0) {
  if (is_off_) Log(LogLevel::kWarning, "PPC is off (" + mark_ + "); ppcctl on");
}

Status OffSwitch::TurnOff() {
  const UniqueFd mark(open(mark_.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0644));
  Status written = mark.IsValid() ? Ok() : Status(PosixError(mark_, errno));
  if (!std::exchange(is_off_, true)) Log(LogLevel::kWarning, "switched off");
  return written;
}

Result<bool> OffSwitch::TurnOn() {
  if (unlink(mark_.c_str()) != 0 && errno != ENOENT) return PosixError(mark_, errno);
  const bool was_off = std::exchange(is_off_, false);
  if (was_off) Log(LogLevel::kInfo, "switched on");
  return was_off;
}

Error OffSwitch::Refusal() { return {ESHUTDOWN, "PPC is switched off on this machine; ppcctl on"}; }

}  // namespace ppc::control
