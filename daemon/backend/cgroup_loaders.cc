// SPDX-License-Identifier: Apache-2.0
#include "daemon/backend/cgroup_loaders.h"

#include <cerrno>
#include <utility>
#include <vector>

#include "daemon/base/log.h"

namespace ppc {

Result<uint32_t> CgroupLoaders::Open(int cgroup_fd, int device_fd, CgroupLoaderOptions options) {
  Result<std::unique_ptr<CgroupLoader>> loader =
      CgroupLoader::Open(cgroup_fd, device_fd, std::move(options));
  if (!loader) return loader.error();
  const std::lock_guard lock(mutex_);
  loaders_[++last_handle_] = std::move(*loader);
  return last_handle_;
}

void CgroupLoaders::Close(uint32_t handle) {
  std::shared_ptr<CgroupLoader> gone;  // destroyed without the lock
  const std::lock_guard lock(mutex_);
  const auto found = loaders_.find(handle);
  if (found == loaders_.end()) return;
  gone = std::move(found->second);
  loaders_.erase(found);
}

int CgroupLoaders::Load(uint32_t handle, ppc_load* load, int node) {
  const std::shared_ptr<CgroupLoader> loader = Find(handle);
  return loader == nullptr ? EBADF : WarnUncharged(loader->Load(load, node));
}

int CgroupLoaders::LoadFile(uint32_t handle, int file, ppc_load* load, int node) {
  const std::shared_ptr<CgroupLoader> loader = Find(handle);
  return loader == nullptr ? EBADF : WarnUncharged(loader->LoadFile(file, load, node));
}

void CgroupLoaders::Reap() {
  std::vector<std::shared_ptr<CgroupLoader>> loaders;
  {
    const std::lock_guard lock(mutex_);
    for (const auto& [handle, loader] : loaders_) loaders.push_back(loader);
  }
  for (const std::shared_ptr<CgroupLoader>& loader : loaders) loader->Reap();
}

std::shared_ptr<CgroupLoader> CgroupLoaders::Find(uint32_t handle) {
  const std::lock_guard lock(mutex_);
  const auto found = loaders_.find(handle);
  return found == loaders_.end() ? nullptr : found->second;
}

int CgroupLoaders::WarnUncharged(int code) {
  if (code == EBUSY && !warned_uncharged_.exchange(true)) {
    Log(LogLevel::kWarning,
        "a service's cgroup takes no process, since it has children with controllers; its loads "
        "are charged to the runner's cgroup");
  }
  return code;
}

}  // namespace ppc
