// SPDX-License-Identifier: Apache-2.0
// Owns the interface to the files of a directory that has too many to list by name: they are
// discovered when a process reads them (extras/discovery).  On file systems that open a file by its
// inode number (ext4, xfs and others); only the inode of such a file is known.
// Threads: any.
#ifndef PPC_DAEMON_BACKEND_OBSERVER_FILE_DISCOVERY_H_
#define PPC_DAEMON_BACKEND_OBSERVER_FILE_DISCOVERY_H_

#include <sys/stat.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "daemon/backend/backend.h"
#include "daemon/backend/observer/programs.h"
#include "daemon/base/result.h"
#include "daemon/base/unique_fd.h"

namespace ppc {

class FileDiscovery {
 public:
  static constexpr uint64_t kMark = uint64_t{1} << 39;  // set in all numbers; policies have 40 bits
  static constexpr unsigned kUnits = 16;

  static bool IsDiscovered(uint64_t number) { return (number & kMark) != 0; }

  virtual ~FileDiscovery() = default;

  // Further files are discovered from now on; `fd` is one of them.  False: its file system opens
  // none by number.
  virtual bool Start(int fd) = 0;
  virtual bool HasStarted() const = 0;
  // Returns the number of a file that may be in the directory (Resolve decides); 0: it is not.
  // Never waits for a file system.
  virtual uint64_t Discover(uint64_t ino, uint32_t dev, uint32_t generation) = 0;
  // Notes the kernel's name of a file and the inode of its directory; forgotten soon unless kept.
  virtual void NoteName(uint64_t file, uint64_t folder, std::string_view name) = 0;
  virtual void KeepName(uint64_t file) = 0;
  // As ObserverFiles has them.
  virtual Result<FileInfo> Resolve(uint64_t file, std::string* path) = 0;
  virtual Result<UniqueFd> Open(uint64_t file, int flags) = 0;
  // As known without looking it up.
  virtual std::optional<FileInfo> Peek(uint64_t file) const = 0;
  // Device and inode, as in stat() and /proc/PID/maps.
  virtual std::optional<std::pair<dev_t, ino_t>> InodeOf(uint64_t file) const = 0;
  // 0: not discovered.
  virtual uint64_t NumberOf(dev_t dev, ino_t ino) const = 0;
  // The file will be read: asks the kernel to report it.
  virtual void Expect(uint64_t file) = 0;
  // The kernel reported another generation of the inode.  False: it was not discovered.
  virtual bool Forget(uint64_t ino, uint32_t dev) = 0;
  // Takes all files off the kernel's list; their next readers discover them again.
  virtual void Unlist() = 0;
  virtual size_t Files() const = 0;

  // A bit for each of the first units of a file, for DroppableRanges; all clear for a new file.
  virtual uint16_t Units(uint64_t file) const = 0;
  virtual void SetUnits(uint64_t file, uint16_t units) = 0;
};

// Discovers files of the directory `root`; the kernel's list gets at most `in_kernel` of them.
// is_anothers: by stat() and the name below the root, whether a file is listed by name or lies in a
// registered directory below.  programs must outlive the result.  nullptr: built without
// extras/discovery.
std::unique_ptr<FileDiscovery> MakeFileDiscovery(
    const std::string& root, ObserverPrograms* programs, size_t in_kernel,
    std::function<bool(const struct stat& info, const std::string& name)> is_anothers);

}  // namespace ppc

#endif  // PPC_DAEMON_BACKEND_OBSERVER_FILE_DISCOVERY_H_
