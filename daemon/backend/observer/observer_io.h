// SPDX-License-Identifier: Apache-2.0
// Owns what the observer does to files: loads, evictions, residency, and what has to be known for
// them of who reads: whose pages they are, who maps them.
// Threads: Note by who drains events; Look by the observer's own thread; all else by any.
#ifndef PPC_DAEMON_BACKEND_OBSERVER_OBSERVER_IO_H_
#define PPC_DAEMON_BACKEND_OBSERVER_OBSERVER_IO_H_

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "daemon/backend/backend.h"
#include "daemon/backend/burn_groups.h"
#include "daemon/backend/cgroup_loaders.h"
#include "daemon/backend/observer/discovered_files.h"
#include "daemon/backend/observer/kept_cache.h"
#include "daemon/backend/observer/mappers.h"
#include "daemon/backend/observer/observer_files.h"
#include "daemon/backend/observer/programs.h"
#include "daemon/base/result.h"
#include "daemon/base/unique_fd.h"
#include "daemon/machine/roots.h"

namespace ppc {

// Owns which parts of files are in the page cache because of us: loaded by us, or missed by a
// process that we watch.  Only those may be dropped; a stranger's warm pages stay.
// Threads: any.
class OwnPages {
 public:
  static constexpr uint64_t kUnit = 64 << 10;  // what the kernel's least read-ahead brings
  static constexpr size_t kMaxFiles = 65536;

  // Discovered files may be many; their first units are marked there.  discovered must outlive
  // this.
  explicit OwnPages(DiscoveredFiles* discovered) : discovered_(discovered) {}

  void Add(uint64_t file, uint64_t offset, uint64_t length);
  // Nothing of the range is cached any more.  What a unit of ours has outside of it stays ours.
  void Remove(uint64_t file, uint64_t offset, uint64_t length);
  // Our parts of the range, as (offset, length).
  std::vector<std::pair<uint64_t, uint64_t>> Within(uint64_t file, uint64_t offset,
                                                    uint64_t length) const;
  size_t Size()
      const;  // files of which something is ours, discovered ones only beyond their first units

 private:
  void Mark(uint64_t file, uint64_t first, uint64_t end, bool is_ours);

  DiscoveredFiles* const discovered_;
  mutable std::mutex mutex_;
  std::unordered_map<uint64_t, std::vector<bool>> files_;
};

// Owns the descriptors of the files that are being loaded or evicted: open a little longer than one
// step takes, since the next follows at once, but no longer, since an open file holds the file
// system below.
// Threads: any.
class OpenFiles {
 public:
  struct Opened {
    UniqueFd fd;
    bool has_own_pages;  // asked once: the file system is not asked again for the file's pages

    int Get() const { return fd.Get(); }
  };
  using Fd = std::shared_ptr<const Opened>;

  // index must outlive this.
  explicit OpenFiles(ObserverFiles* index) : index_(index) {}

  // Not `is_kept`: open for as long as the caller has it.
  Result<Fd> Open(uint64_t file, bool is_kept = true);
  // Stays open for half a minute without use: opening it again would drop what its reader has read.
  void Keep(uint64_t file);
  // False: none is open any more.
  bool CloseIdle(uint64_t now_ns);

 private:
  struct OpenFile {
    Fd fd;
    uint64_t used_ns = 0;
    uint64_t keep_ns = 0;  // unused
  };

  ObserverFiles* const index_;
  std::mutex mutex_;
  std::unordered_map<uint64_t, OpenFile> files_;
};

class ObserverIo {
 public:
  struct Parts {  // all must outlive this
    ObserverFiles* index = nullptr;
    DiscoveredFiles* discovered = nullptr;
    ObserverPrograms* programs = nullptr;
  };

  ObserverIo(const std::string& dir, const SysRoots& roots, Parts parts);

  // What an event tells of pages and readers.
  void Note(const Event& event);
  // Closes what is idle; ns until it wants to be called again.
  uint64_t Look(uint64_t now_ns);

  // As in backend.h.
  Result<LoadResult> Load(const LoadRequest& request);
  Result<EvictResult> Evict(const EvictRequest& request);
  Result<Residency> Resident(uint64_t file, uint64_t offset, uint64_t length,
                             std::span<uint8_t> bitmap);
  Result<uint32_t> Charge(int cgroup_fd);
  void Uncharge(uint32_t handle);

  // What `status` says.
  bool HasDrops() const { return kept_.HasDrops(); }

 private:
  // Whether a load of the file makes sense now, else why not.
  LoadStop MayLoad(uint64_t file, int fd);
  // By the process in the service's cgroup, or by ourselves.
  Result<LoadResult> LoadOpen(const LoadRequest& request, int fd);
  std::shared_ptr<BurnGroups> BurnGroupsOf(uint32_t handle);
  std::vector<std::shared_ptr<BurnGroups>> AllBurnGroups();
  // Bytes of the range that went since nothing of their groups is needed any more.
  uint64_t ReleaseGroups(const EvictRequest& request, int fd);
  void ForgetDropped(uint64_t file, int fd, uint64_t offset, uint64_t length);

  const SysRoots roots_;
  const Parts parts_;
  OpenFiles files_;
  OwnPages own_pages_;
  Mappers mappers_;
  KeptCache kept_;
  std::mutex payers_mutex_;
  // For payers with limited memory.  Both end first: they tell the programs of their processes.
  std::map<uint32_t, std::shared_ptr<BurnGroups>> burn_groups_;  // under payers_mutex_
  CgroupLoaders charged_;
};

}  // namespace ppc

#endif  // PPC_DAEMON_BACKEND_OBSERVER_OBSERVER_IO_H_
