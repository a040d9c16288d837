// SPDX-License-Identifier: Apache-2.0
// Owns the cgroup loaders of a backend by the handles that Backend::Charge gives out, where the
// kernel has no such handles.
// Threads: any.
#ifndef PPC_DAEMON_BACKEND_CGROUP_LOADERS_H_
#define PPC_DAEMON_BACKEND_CGROUP_LOADERS_H_

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>

#include "daemon/backend/cgroup_loader.h"
#include "daemon/base/result.h"

namespace ppc {

class CgroupLoaders {
 public:
  // See CgroupLoader::Open.  The handle is never 0.
  Result<uint32_t> Open(int cgroup_fd, int device_fd, CgroupLoaderOptions options = {});
  // A load under way keeps its loader until it ends.
  void Close(uint32_t handle);

  // As CgroupLoader's; EBADF: no such handle.  With EBUSY the caller loads by itself, and the log
  // says once who pays.
  int Load(uint32_t handle, ppc_load* load, int node);
  int LoadFile(uint32_t handle, int file, ppc_load* load, int node);

  void Reap();  // see CgroupLoader::Reap

 private:
  std::shared_ptr<CgroupLoader> Find(uint32_t handle);
  int WarnUncharged(int code);

  std::mutex mutex_;
  std::map<uint32_t, std::shared_ptr<CgroupLoader>> loaders_;
  uint32_t last_handle_ = 0;
  std::atomic<bool> warned_uncharged_{false};
};

}  // namespace ppc

#endif  // PPC_DAEMON_BACKEND_CGROUP_LOADERS_H_
