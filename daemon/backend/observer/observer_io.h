// SPDX-License-Identifier: Apache-2.0
// Owns the observer's file operations: loads, evictions, residency; and what they need to know of
// readers: whose pages they are, and which processes map them.
// Threads: Note on the thread that drains events; RunPeriodic on the observer's own thread; the
// rest on any.
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
#include "daemon/backend/observer/file_discovery.h"
#include "daemon/backend/observer/kept_cache.h"
#include "daemon/backend/observer/mappers.h"
#include "daemon/backend/observer/observer_files.h"
#include "daemon/backend/observer/programs.h"
#include "daemon/base/result.h"
#include "daemon/base/unique_fd.h"
#include "daemon/machine/roots.h"

namespace ppc {

// Owns which parts of files are in the page cache because of us: loaded by us, or missed by a
// process that we watch.  Only these may be dropped; pages that a stranger has cached stay.
// Threads: any.
class DroppableRanges {
 public:
  static constexpr uint64_t kUnit = 64 << 10;  // the kernel's smallest read-ahead
  static constexpr size_t kMaxFiles = 65536;

  // `discovery` holds the bits of the first units of discovered files; it must outlive this.
  // nullptr: there are none.
  explicit DroppableRanges(FileDiscovery* discovery) : discovery_(discovery) {}

  void Add(uint64_t file, uint64_t offset, uint64_t length);
  // Pages of the range are no longer cached.  The rest of a partly covered unit stays ours.
  void Remove(uint64_t file, uint64_t offset, uint64_t length);
  // Our parts of the range, as (offset, length).
  std::vector<std::pair<uint64_t, uint64_t>> Within(uint64_t file, uint64_t offset,
                                                    uint64_t length) const;
  size_t Size() const;  // files with parts of ours; discovered files only beyond their first units

 private:
  bool IsDiscovered(uint64_t file) const {
    return discovery_ != nullptr && FileDiscovery::IsDiscovered(file);
  }
  void Mark(uint64_t file, uint64_t first, uint64_t end, bool is_ours);

  FileDiscovery* const discovery_;
  mutable std::mutex mutex_;
  std::unordered_map<uint64_t, std::vector<bool>> files_;
};

// Owns the descriptors of files being loaded or evicted.  A file stays open a little longer than
// one step, for the next step, but no longer, since an open file keeps its file system from being
// unmounted.
// Threads: any.
class OpenFiles {
 public:
  struct Opened {
    UniqueFd fd;
    bool has_own_pages;  // asked once per open of the file

    int Get() const { return fd.Get(); }
  };
  using Fd = std::shared_ptr<const Opened>;

  // index must outlive this.
  explicit OpenFiles(ObserverFiles* index) : index_(index) {}

  // `is_kept` false: open only while the caller holds it, or for as long as it would be without the
  // caller.
  Result<Fd> Open(uint64_t file, bool is_kept = true);
  // nullptr: not open.  `is_kept` as above.
  Fd Find(uint64_t file, bool is_kept);
  // Keeps it open so long without use, if it is open.
  void Keep(uint64_t file, uint64_t keep_ns);
  // False: no file is open any more.
  bool CloseIdle(uint64_t now_ns);

 private:
  struct OpenFile {
    Fd fd;
    uint64_t used_ns = 0;
    uint64_t keep_ns = 0;  // while unused
  };

  ObserverFiles* const index_;
  std::mutex mutex_;
  std::unordered_map<uint64_t, OpenFile> files_;
};

class ObserverIo {
 public:
  struct Parts {  // all must outlive this
    ObserverFiles* index = nullptr;
    ObserverPrograms* programs = nullptr;
  };

  ObserverIo(const std::string& dir, const SysRoots& roots, Parts parts);

  // Notes pages and readers of an event.
  void Note(const Event& event);
  // Closes idle files; returns ns until the next call.
  uint64_t RunPeriodic(uint64_t now_ns);

  // As in backend.h.
  Result<LoadResult> Load(const LoadRequest& request);
  Result<EvictResult> Evict(const EvictRequest& request);
  Result<Residency> Resident(uint64_t file, uint64_t offset, uint64_t length,
                             std::span<uint8_t> bitmap);
  Result<uint64_t> SampleCache(uint64_t file, uint64_t offset, uint64_t length, bool is_kept);
  Result<uint32_t> Charge(int cgroup_fd);
  void Uncharge(uint32_t handle);

  // See Backend::Read; the file stays open.
  Result<size_t> Read(uint64_t file, const std::string& path, uint64_t offset,
                      std::span<uint8_t> buffer);

  const KeptCache& kept() const { return kept_; }

 private:
  Result<uint64_t> Cached(uint64_t file, const OpenFiles::Opened& open, uint64_t offset,
                          uint64_t length, std::span<uint8_t> bitmap);
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
  DroppableRanges droppable_;
  Mappers mappers_;
  KeptCache kept_;
  const bool asks_server_;
  std::mutex payers_mutex_;
  // For payers with limited memory.  Both maps are destroyed first: they report their processes to
  // the programs.
  std::map<uint32_t, std::shared_ptr<BurnGroups>> burn_groups_;  // under payers_mutex_
  CgroupLoaders charged_;
};

}  // namespace ppc

#endif  // PPC_DAEMON_BACKEND_OBSERVER_OBSERVER_IO_H_
