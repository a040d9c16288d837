// SPDX-License-Identifier: Apache-2.0
// Owns what the runtime knows about files: number to path and back, sizes; asks the
// backend at most every few seconds about each.  An inode that leaves the kernel's cache comes back
// under another number: policies go on with the first one, the backend is given the current one.
// Threads: any.
#ifndef PPC_DAEMON_EXEC_FILE_TABLE_H_
#define PPC_DAEMON_EXEC_FILE_TABLE_H_

#include <cstdint>
#include <deque>
#include <map>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <tuple>
#include <unordered_map>
#include <vector>

#include "daemon/backend/backend.h"
#include "daemon/policy/io_check.h"

namespace ppc {

struct KnownFile {
  FileInfo info;
  std::string path;
  uint64_t checked_ns = 0;
  uint64_t first = 0;        // the number that policies know it by
  uint64_t current = 0;      // in the entry of the first number: the one the kernel knows
  std::deque<uint64_t> old;  // there, too: those between, which what is queued may have
  bool native = false;       // there, too: see SetNative
};

// What an event's handler needs of a file: a copy, so that nothing is locked per event and hooks
// may ask about files meanwhile.
struct FileCopy {
  uint64_t file = 0;   // as asked for; 0: none
  uint64_t first = 0;  // the number that policies know it by
  uint64_t bytes = 0;
  uint32_t dev_major = 0;
  uint32_t dev_minor = 0;
  uint64_t fresh_until_ns = 0;
  std::string path;
};

class FileTable : public FileResolver {
 public:
  explicit FileTable(Backend* backend) : backend_(backend) {}

  // False: the file is gone.
  bool Copy(uint64_t file, uint64_t now_ns, FileCopy* out);
  // By path; asks the backend when not fresh.  The number is the first.
  Result<FileInfo> Find(const std::string& path);
  // A number turned out stale: the one that the file has now, if there still is that file; the same
  // one, where only its name had left the kernel's cache.
  std::optional<uint64_t> Refresh(uint64_t stale);
  // Of any number of a file; the number itself where nothing is known.
  uint64_t FirstOf(uint64_t file) const;
  uint64_t CurrentOf(uint64_t file) const;
  // What of the file is in the page cache, whatever number it is asked by; see Backend::Resident.
  Result<Residency> Resident(uint64_t file, uint64_t offset, uint64_t length,
                             std::span<uint8_t> bitmap);
  // Reads of the file are read ahead by the kernel itself, under whatever number.
  Status SetNative(uint64_t file, bool native);

  bool SizeOf(uint64_t file, uint64_t* bytes) override;
  bool FindPath(const std::string& path, uint64_t* file, uint64_t* bytes) override;

  std::vector<uint64_t> Files() const;  // the current number of each
  size_t Size() const;
  // Between batches: forgets everything once there are too many.
  void Trim();

 private:
  Result<FileInfo> AskName(uint64_t file, std::string* path);
  Result<FileInfo> AskNumber(const std::string& path);
  void NoteAnswer(uint64_t asked_ns);
  KnownFile* GetLocked(uint64_t file, uint64_t now);
  KnownFile* Learn(const FileInfo& info, const std::string& path, uint64_t now);
  std::optional<uint64_t> RefreshLocked(uint64_t stale);
  uint64_t CurrentLocked(uint64_t file) const;

  // Of a file, whatever its name: it may have several (hard links, symlinks).
  using Inode = std::tuple<uint32_t, uint32_t, uint64_t>;
  static Inode InodeOf(const FileInfo& info) { return {info.dev_major, info.dev_minor, info.ino}; }
  void Link(KnownFile* known);

  static constexpr uint64_t kFreshNs = 2ULL * 1000 * 1000 * 1000;
  static constexpr uint64_t kSlowNs = 20 * 1000 * 1000;
  static constexpr size_t kMaxOld = 8;
  static constexpr size_t kMaxFiles = 65536;

  Backend* const backend_;
  mutable std::mutex mutex_;
  std::unordered_map<uint64_t, KnownFile> by_id_;
  std::unordered_map<std::string, uint64_t> by_path_;
  std::map<Inode, uint64_t> by_inode_;  // to the number seen last
};

}  // namespace ppc

#endif  // PPC_DAEMON_EXEC_FILE_TABLE_H_
