// SPDX-License-Identifier: Apache-2.0
// Owns the files below one directory and their inodes in the page cache: numbers, names, and the
// list of inodes that the BPF programs check.  stat() does not always show the page cache's inode
// (overlay, btrfs, NFS), so the kernel is asked through a mapping of each file.
//
// A limited number of files is listed; others are discovered when a process reads them (see
// file_discovery.h).  The kernel's list holds the most recent ones.
//
// A registered directory below this one owns its files.
//
// Holds no descriptor: the file system below can be unmounted.
// Threads: any.
#ifndef PPC_DAEMON_BACKEND_OBSERVER_OBSERVER_FILES_H_
#define PPC_DAEMON_BACKEND_OBSERVER_OBSERVER_FILES_H_

#include <sys/stat.h>

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "daemon/backend/backend.h"
#include "daemon/backend/observer/file_discovery.h"
#include "daemon/backend/observer/inode_table.h"
#include "daemon/backend/observer/programs.h"
#include "daemon/backend/root_files.h"
#include "daemon/base/result.h"
#include "daemon/base/unique_fd.h"

namespace ppc {

class ObserverFiles {
 public:
  struct Limits {
    size_t listed = 8192;     // by name
    size_t in_kernel = 8192;  // of the discovered files
  };
  // programs must outlive this.
  ObserverFiles(std::string root, ObserverPrograms* programs, Limits limits);
  ~ObserverFiles();
  ObserverFiles(const ObserverFiles&) = delete;
  ObserverFiles& operator=(const ObserverFiles&) = delete;

  // Lists the directory's files until `deadline_ns` (CLOCK_MONOTONIC); false: there are more.
  Result<bool> Scan(uint64_t deadline_ns);
  // Continues where Scan stopped, then checks directories for changes; false: there are more.
  Result<bool> Rescan(uint64_t deadline_ns);

  // ESTALE: unknown, or the file is gone.  *path is empty if only the file's number is known for
  // now.
  Result<FileInfo> Resolve(uint64_t file, std::string* path);
  // Finds a regular file below the directory, also through symbolic links that stay below it.
  Result<FileInfo> Lookup(const std::string& path);
  // Opens the file itself; ESTALE if its name leads to another file.
  Result<UniqueFd> Open(uint64_t file);
  // The kernel reported the inode (ino, dev) with another address or generation than listed.
  // False: its name leads to another inode now; this inode may have another name.
  bool OnChangedInode(uint64_t ino, uint32_t dev);
  // The kernel reported an unlisted inode.  We may still know its name, if it belonged to another
  // registered directory before.
  void OnUnlistedInode(uint64_t ino, uint32_t dev);
  // nullptr: built without it.
  FileDiscovery* discovery() const { return discovery_.get(); }
  // Whether some files are not listed.
  bool HasDiscovered() const { return discovery_ != nullptr && discovery_->HasStarted(); }
  static FileInfo InfoOf(uint64_t file, const struct stat& info);
  // Checks which directories are registered below this one; true: they have changed.
  bool RefreshDeeperRoots();

  // The identity of a file in /proc/PID/maps: device and inode as in stat(), and the base name.
  struct Identity {
    dev_t dev = 0;
    ino_t ino = 0;
    std::string name;
  };
  std::optional<Identity> IdentityOf(uint64_t file) const;

  size_t Files() const;
  // Number of files that the page cache does not know (they cannot be mapped): their reads are not
  // seen.
  uint64_t Unseen() const;
  // Whether files are left out: there are too many, and this file system cannot open them by
  // number.
  bool IsIncomplete() const { return is_incomplete_.load(std::memory_order_relaxed); }

 private:
  struct Directory {
    uint32_t parent = 0;
    std::string name;
    int64_t mtime_ns = 0;          // when it was listed, 0 = not yet
    bool has_other_owner = false;  // registered itself, or below such a directory
  };
  struct NewFile {  // found, inode not learnt yet
    UniqueFd fd;
    uint32_t parent = 0;
    std::string name;
    struct stat info {};
  };
  static int64_t ModifiedNs(const struct stat& info);
  Result<UniqueFd> OpenBelow(const std::string& path, int flags) const {
    return below_root_.Open(path, flags);
  }
  std::string PathOf(uint32_t parent, std::string_view name) const;
  std::string PathOf(const InodeTable::File& file) const { return PathOf(file.parent, file.name); }
  // Finds or adds the directories of a path.
  uint32_t DirectoryOf(const std::string& path);
  // An entry of a directory's listing.
  struct Entry {
    std::string name;
    struct stat info {};
    UniqueFd fd;  // of a file whose inode is to be learnt
  };
  // Drops the lock while waiting for the disk.  False: there are too many files.
  Status ListDirectory(uint32_t directory, std::vector<NewFile>* new_files);
  bool NoteEntries(uint32_t directory, int at, dev_t dev, std::vector<Entry>* entries);
  Result<bool> TakeEntries(uint32_t directory, std::vector<Entry>* entries,
                           std::vector<NewFile>* new_files);
  bool KeepName(uint64_t number, uint32_t parent, int directory, const char* name);
  Status Learn(std::span<NewFile> new_files);
  // Opens the file by its name again and compares.  The file system is asked without the lock.
  enum class RelearnResult { kLearnt, kOtherFile, kChanged };
  RelearnResult Relearn(uint64_t number, const InodeTable::File& file,
                        std::unique_lock<std::mutex>* lock);
  Result<uint64_t> Add(NewFile* found, const obs_vma* seen);
  void Forget(uint64_t file);
  bool IsFull() const { return HasDiscovered() || IsIncomplete(); }
  // There are more files than can be listed, `fd` is one of them: from now on they are discovered,
  // or left out if this file system opens none by number.
  void StartDiscovery(int fd);
  bool IsAnothers(const struct stat& info, const std::string& name);
  bool IsBelowOther(const std::string& path);
  Status NoteDevice(uint32_t dev);

  static constexpr size_t kBatch = 256;  // files learnt with one look
  static constexpr size_t kMaxDirectories = 16384;

  const std::string root_;
  const RootFiles below_root_;
  ObserverPrograms* const programs_;
  mutable std::mutex mutex_;
  std::vector<Directory> dirs_;  // 0 is the root
  std::map<std::pair<uint32_t, std::string>, uint32_t> dir_numbers_;
  InodeTable files_;
  std::vector<uint32_t> devices_;
  uint64_t unseen_ = 0;
  uint32_t next_look_ = 0;  // index of a directory; used by the scanning thread
  std::vector<ObserverPrograms::Root> deeper_roots_;

  const Limits limits_;
  std::atomic<bool> is_incomplete_{false};
  const std::unique_ptr<FileDiscovery> discovery_;
};

}  // namespace ppc

#endif  // PPC_DAEMON_BACKEND_OBSERVER_OBSERVER_FILES_H_
