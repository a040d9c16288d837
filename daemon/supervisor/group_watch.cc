// SPDX-License-Identifier: Apache-2.0
#include "daemon/supervisor/group_watch.h"

#include <cerrno>
#include <utility>

#include "daemon/base/log.h"

namespace ppc::control {

void GroupWatch::Begin() {
  if (std::exchange(is_waiting_, true)) return;
  loop_.After(period_, [this] {
    is_waiting_ = false;
    if (!has_ended_) Look();
  });
}

void GroupWatch::End() { has_ended_ = true; }

void GroupWatch::Look() {
  bool is_any_left = false;
  for (const auto& [key, registration] : registrations_.all()) {
    for (const std::string& id :
         registration->services().Claimed([](const Owner&) { return true; })) {
      if (!StopIfGone(*registration, id)) is_any_left = true;
    }
  }
  if (is_any_left) Begin();
}

bool GroupWatch::StopIfGone(Registration& registration, const std::string& id) {
  const Owner owner = registration.services().Find(id)->owner;
  const std::string& cgroup = owner.cgroup;
  const Result<Cgroups::Group> group = cgroups_.Resolve(cgroup);
  // One that has been made anew under its name belongs to another owner.
  const bool is_another = group && owner.group_inode != 0 && group->inode != owner.group_inode;
  // Without a view of any group nothing is known of one.
  if (!is_another && (group || group.error().code != ENOENT || !cgroups_.Resolve("/")))
    return false;
  Log(LogLevel::kInfo, {registration.mount().path, id},
      "control group " + DumpJson(cgroup) + " of service " + id + " is gone; service stopped");
  ends_.Stop(registration, id, "exit");
  return true;
}

}  // namespace ppc::control
