// SPDX-License-Identifier: Apache-2.0
#include "daemon/supervisor/registration_maker.h"

#include <optional>
#include <utility>

#include "daemon/machine/host_memory.h"

namespace ppc::control {
namespace {

std::optional<MemoryBroker::Machine> ReadMachine(const SysRoots& roots) {
  const Result<HostMemory> host = ReadHostMemory(roots, {});
  if (!host) return std::nullopt;
  return MemoryBroker::Machine{host->available, host->files};
}

}  // namespace

RegistrationMaker::RegistrationMaker(EventLoop& loop, const Options& options,
                                     const MountProbe& probe, const Cgroups& cgroups,
                                     const StateDir& state)
    : observers_(loop, options.roots),
      memory_(loop, options.memory_period, [&options] { return ReadMachine(options.roots); }),
      environment_{loop, options, probe, cgroups, observers_, memory_, reads_, state} {}

std::string RegistrationMaker::NextHandle(const MountInfo& mount) {
  const std::string device = mount.is_plain ? "dir" : "ppc" + std::to_string(mount.index);
  return device + "." + std::to_string(next_handle_++);
}

std::unique_ptr<Registration> RegistrationMaker::Make(const MountInfo& mount, PolicyChoice choice,
                                                      const std::string& handle,
                                                      Registration::Callbacks callbacks) {
  return std::make_unique<Registration>(environment_, mount, std::move(choice), handle,
                                        std::move(callbacks));
}

}  // namespace ppc::control
