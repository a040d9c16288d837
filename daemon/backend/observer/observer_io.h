// SPDX-License-Identifier: Apache-2.0
// Owns the observer's file operations: loads, evictions, residency; and what they need to know of
// readers: whose pages they are, and which processes map them.
// Threads: Note on the thread that drains events; Look on the observer's own thread; the rest on
// any.
#ifndef PPC_DAEMON_BACKEND_OBSERVER_OBSERVER_IO_H_
#define PPC_DAEMON_BACKEND_OBSERVER_OBSERVER_IO_H_

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "daemon/backend/backend.h"
#include "daemon/backend/burn_groups.h"
#include "daemon/backend/cgroup_loaders.h"
#include "daemon/backend/observer/kept_cache.h"
#include "daemon/backend/observer/mappers.h"
#include "daemon/backend/observer/observer_files.h"
#include "daemon/backend/observer/open_files.h"
#include "daemon/backend/observer/own_pages.h"
#include "daemon/backend/observer/programs.h"
#include "daemon/machine/roots.h"

namespace ppc {

class ObserverIo {
 public:
  struct Parts {  // all must outlive this
    ObserverFiles* index = nullptr;
    DiscoveredFiles* discovered = nullptr;
    ObserverPrograms* programs = nullptr;
  };

  ObserverIo(const std::string& dir, const SysRoots& roots, Parts parts);

  // Notes pages and readers of an event.
  void Note(const Event& event);
  // Closes idle files; returns ns until the next call.
  uint64_t Look(uint64_t now_ns);

  // As in backend.h.
  Result<LoadResult> Load(const LoadRequest& request);
  Result<EvictResult> Evict(const EvictRequest& request);
  Result<Residency> Resident(uint64_t file, uint64_t offset, uint64_t length,
                             std::span<uint8_t> bitmap);
  Result<uint32_t> Charge(int cgroup_fd);
  void Uncharge(uint32_t handle);

  // For `status`.
  bool HasDrops() const { return kept_.HasDrops(); }

 private:
  // Whether loading the file makes sense now, else the reason.
  LoadStop MayLoad(uint64_t file, int fd);
  // Loads in the service's cgroup by its helper process, or here.
  Result<LoadResult> LoadOpen(const LoadRequest& request, int fd);
  std::shared_ptr<BurnGroups> BurnGroupsOf(uint32_t handle);
  std::vector<std::shared_ptr<BurnGroups>> AllBurnGroups();
  // Bytes of the range that were released because their groups need nothing of it any more.
  uint64_t ReleaseGroups(const EvictRequest& request, int fd);
  void ForgetDropped(uint64_t file, int fd, uint64_t offset, uint64_t length);

  const SysRoots roots_;
  const Parts parts_;
  OpenFiles files_;
  OwnPages own_pages_;
  Mappers mappers_;
  KeptCache kept_;
  std::mutex payers_mutex_;
  // For payers with limited memory.  Both maps are destroyed first: they report their processes to
  // the programs.
  std::map<uint32_t, std::shared_ptr<BurnGroups>> burn_groups_;  // under payers_mutex_
  CgroupLoaders charged_;
};

}  // namespace ppc

#endif  // PPC_DAEMON_BACKEND_OBSERVER_OBSERVER_IO_H_
