// SPDX-License-Identifier: Apache-2.0
// Owns which files lie below one directory and which inodes they are to the page cache: numbers,
// names, and the list of inodes that the BPF programs look into.  stat() does not tell the latter
// (overlay, btrfs, NFS): the kernel is asked, by a look at our own mapping of each file.
//
// So many files are listed.  Where there are more (ext4, xfs and what else opens a file by the
// number of its inode) the others are discovered: each when a process reads it, and nothing is
// known of it but its inode.  The kernel's list holds the last of them.
//
// What lies below another registered directory that is further down is that one's.
//
// Holds no descriptor: the file system below can be unmounted.
// Threads: any.
#ifndef PPC_DAEMON_BACKEND_OBSERVER_OBSERVER_FILES_H_
#define PPC_DAEMON_BACKEND_OBSERVER_OBSERVER_FILES_H_

#include <sys/stat.h>

#include <atomic>
#include <cstdint>
#include <deque>
#include <map>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "daemon/backend/backend.h"
#include "daemon/backend/observer/discovered_files.h"
#include "daemon/backend/observer/inode_table.h"
#include "daemon/backend/observer/name_hints.h"
#include "daemon/backend/observer/programs.h"
#include "daemon/backend/root_files.h"
#include "daemon/base/result.h"
#include "daemon/base/unique_fd.h"

namespace ppc {

class ObserverFiles {
 public:
  struct Limits {
    size_t listed = 8192;     // by name
    size_t in_kernel = 8192;  // of the discovered
  };
  // programs and discovered must outlive this.
  ObserverFiles(std::string root, ObserverPrograms* programs, DiscoveredFiles* discovered,
                Limits limits);
  ~ObserverFiles();
  ObserverFiles(const ObserverFiles&) = delete;
  ObserverFiles& operator=(const ObserverFiles&) = delete;

  // Lists the directory's files until `deadline_ns` (CLOCK_MONOTONIC); false: there are more.
  Result<bool> Scan(uint64_t deadline_ns);
  // Goes on where Scan stopped, then looks at directories that changed since; false: there are
  // more.
  Result<bool> Rescan(uint64_t deadline_ns);

  // ESTALE: unknown, or the file is gone.
  // *path is empty where only the file's number is known at the moment.
  Result<FileInfo> Resolve(uint64_t file, std::string* path);
  // Finds a regular file below the directory, also by symbolic links that stay there.
  Result<FileInfo> Lookup(const std::string& path);
  // Opens the file itself; ESTALE when another lies under its name.
  Result<UniqueFd> Open(uint64_t file);
  // The kernel reported the inode (ino, dev) at another address or generation than was listed.
  // False: its name leads to another inode now; this one may have another name.
  bool OnChangedInode(uint64_t ino, uint32_t dev);
  // The kernel reported an unlisted inode.  We may still know its name, if it belonged to another
  // registered directory before.
  void OnUnlistedInode(uint64_t ino, uint32_t dev);
  // Not all files are listed.
  bool HasDiscovered() const { return has_discovered_.load(std::memory_order_relaxed); }
  // The number of a file that may be one of the directory's (Resolve tells); 0: it cannot.  Waits
  // for no file system.
  uint64_t Discover(uint64_t ino, uint32_t dev, uint32_t generation);
  // The kernel's word for the name of a discovered file and the inode of its directory; forgotten
  // soon unless it is to be kept.
  void NoteName(uint64_t file, uint64_t folder, std::string_view name) {
    hints_.Note(file, folder, name);
  }
  void KeepName(uint64_t file) { hints_.Keep(file); }
  // A discovered file, as far as is known without a look at it.
  std::optional<FileInfo> Peek(uint64_t file) const;
  // It will be read: the kernel is to tell of it.
  void Expect(uint64_t file);
  // Looks which directories are registered below this one now; true: others than before.
  bool LookBelow();

  // A number in /proc/PID/maps: device and inode as stat() shows them, and the base name.
  struct Identity {
    dev_t dev = 0;
    ino_t ino = 0;
    std::string name;
  };
  std::optional<Identity> IdentityOf(uint64_t file) const;

  size_t Files() const;
  // Files that the page cache does not know (no mapping is possible): their reads are not seen.
  uint64_t Unseen() const;
  // Files are left out: there are too many, and this file system does not open them by number.
  bool IsCut() const { return is_cut_.load(std::memory_order_relaxed); }

 private:
  struct Directory {
    uint32_t parent = 0;
    std::string name;
    int64_t mtime_ns = 0;    // when it was listed, 0 = not yet
    bool is_others = false;  // registered by itself, or below such a one
  };
  struct Fresh {  // found, not learnt yet
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
  // Makes the directories of a path where they are new.
  uint32_t DirectoryOf(const std::string& path);
  // What a directory's listing says, of a part of it.
  struct Entry {
    std::string name;
    struct stat info {};
    UniqueFd fd;  // of a file that is to be learnt
  };
  // Without the lock while the disk is asked.  False: there are too many files.
  Status ListDirectory(uint32_t directory, std::vector<Fresh>* fresh);
  bool NoteEntries(uint32_t directory, int at, dev_t dev, std::vector<Entry>* entries);
  Result<bool> TakeEntries(uint32_t directory, std::vector<Entry>* entries,
                           std::vector<Fresh>* fresh);
  bool KeepName(uint64_t number, uint32_t parent, int directory, const char* name);
  Status Learn(std::span<Fresh> fresh);
  // What the file's name leads to, for which the file system is asked without the lock.
  enum class Again { kLearnt, kAnother, kChanged };
  Again LearnAgain(uint64_t number, const InodeTable::File& file,
                   std::unique_lock<std::mutex>* lock);
  Result<uint64_t> Add(Fresh* fresh, const obs_vma* seen);
  void Forget(uint64_t file);
  bool IsFull() const { return HasDiscovered() || IsCut(); }
  // There are too many files, of which this is one.
  void BeFull(int fd);
  bool IsDiscoveredInode(dev_t dev, ino_t ino) const {
    return HasDiscovered() && dev == discovered_dev_ && discovered_->NumberOf(ino) != 0;
  }
  Result<UniqueFd> OpenDiscovered(const DiscoveredFiles::File& file, int flags) const;
  Result<UniqueFd> OpenDiscovered(uint64_t number, int flags);
  struct Named {  // a discovered file
    std::string whole;
    std::string name;  // below the root
    struct stat info {};
    bool is_below = false;
    bool is_named = true;  // `whole` leads to it
  };
  std::string Prefix() const { return root_ == "/" ? root_ : root_ + "/"; }
  std::optional<Named> FindByHint(uint64_t number, const DiscoveredFiles::File& file) const;
  Result<Named> FindByNumber(uint64_t number);
  Result<FileInfo> ResolveDiscovered(uint64_t number, std::string* path);
  bool IsBelowOther(const std::string& path);
  Status ListDiscovered(uint64_t number, const DiscoveredFiles::File& file);
  void UnlistDiscovered(size_t most);
  Result<FileInfo> InfoOf(uint64_t file, const struct stat& info) const;
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
  uint32_t next_look_ = 0;  // directory; of the thread that scans
  std::vector<ObserverPrograms::Root> below_;

  const Limits limits_;
  DiscoveredFiles* const discovered_;
  std::atomic<bool> is_cut_{false};
  std::atomic<bool> has_discovered_{false};
  NameHints hints_;
  // The device of discovered files; written before has_discovered_ is.
  dev_t discovered_dev_ = 0;
  uint32_t discovered_key_dev_ = 0;
  int handle_type_ = 0;
  std::mutex listed_mutex_;
  std::deque<std::pair<uint64_t, uint64_t>>
      listed_;  // discovered that the kernel knows: number, inode
};

}  // namespace ppc

#endif  // PPC_DAEMON_BACKEND_OBSERVER_OBSERVER_FILES_H_
