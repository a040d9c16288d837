// SPDX-License-Identifier: Apache-2.0
// Owns the numbers of the files below the root, and the assumed residency of each: what we loaded
// or saw being read, since the kernel does not show it for other users' files.  Keeps no file open;
// opens a file by its path and compares it with the number's identity.
// Threads: any.
#ifndef PPC_EXTRAS_POLL_POLLED_FILES_H_
#define PPC_EXTRAS_POLL_POLLED_FILES_H_

#include <compare>
#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "daemon/backend/backend.h"
#include "daemon/backend/root_files.h"
#include "daemon/base/result.h"
#include "daemon/base/unique_fd.h"

namespace ppc {

// Identity of a file: inode numbers are reused, but with another time of birth.
struct FileIdentity {
  uint32_t dev_major = 0;
  uint32_t dev_minor = 0;
  uint64_t ino = 0;
  int64_t birth_ns = 0;
  auto operator<=>(const FileIdentity&) const = default;
};

struct FileStat {
  FileIdentity id;
  uint64_t size = 0;
  int64_t mtime_ns = 0;
  uint32_t uid = 0;
  bool is_regular = false;
};

// statx(2); follows links.  "" with a descriptor: the descriptor itself.
Result<FileStat> StatFile(int dir, const std::string& path);

class PolledFiles {
 public:
  explicit PolledFiles(std::string root);

  const RootFiles& root_files() const { return root_files_; }

  // As in Backend.
  Result<FileInfo> Lookup(const std::string& path);
  Result<FileInfo> Resolve(uint64_t file, std::string* path);
  // ESTALE: the path leads to another file now, or nowhere.
  Result<UniqueFd> Open(uint64_t file, FileStat* stat);
  // The number of a file that a process has open or mapped under this absolute path; 0: not a
  // regular file below the root.
  uint64_t Find(const FileStat& stat, const std::string& absolute);
  bool IsBelowRoot(const std::string& absolute) const;
  uint64_t SizeOf(uint64_t file) const;

  // Sets the assumed residency, in units of kUnitBytes.
  void MarkPresent(uint64_t file, uint64_t offset, uint64_t length);
  void MarkAbsent(uint64_t file, uint64_t offset, uint64_t length);
  uint64_t PresentBytes(uint64_t file, uint64_t offset, uint64_t length) const;
  bool IsPresent(uint64_t file, uint64_t offset) const;

  static constexpr uint64_t kUnitBytes = 64 << 10;

 private:
  struct File {
    FileStat stat;
    std::string path;  // below the root
    std::vector<bool> present;
  };

  // mutex_ held.
  const File* Get(uint64_t file) const;
  uint64_t Learn(const FileStat& stat, const std::string& path);
  FileInfo InfoOf(uint64_t file) const;

  static constexpr size_t kMaxFiles = 65536;

  const RootFiles root_files_;
  const std::string prefix_;  // of absolute paths below the root
  mutable std::mutex mutex_;
  std::vector<File> files_;  // number - 1
  std::map<FileIdentity, uint64_t> numbers_;
};

}  // namespace ppc

#endif  // PPC_EXTRAS_POLL_POLLED_FILES_H_
