// SPDX-License-Identifier: Apache-2.0
// Owns which of the module's file numbers are one file.  An inode that leaves the kernel's cache
// comes back under another number; outside, a file keeps the first one that it had, and the module
// is given the current one.
// Threads: any; the module is asked without the lock, since it may wait for the disk.
#ifndef PPC_DAEMON_BACKEND_KMOD_KMOD_FILES_H_
#define PPC_DAEMON_BACKEND_KMOD_KMOD_FILES_H_

#include <cerrno>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <tuple>
#include <unordered_map>

#include "daemon/backend/backend.h"
#include "daemon/base/result.h"

namespace ppc {

class KmodFiles {
 public:
  // What is asked of the module, in its own numbers.
  struct Module {
    std::function<Result<FileInfo>(uint64_t number, std::string* path)> resolve;
    std::function<Result<FileInfo>(const std::string& path)> look_up;
    std::function<Status(uint64_t number, bool native)> set_native;
  };

  explicit KmodFiles(Module module) : module_(std::move(module)) {}

  // As those of Backend.
  Result<FileInfo> Resolve(uint64_t file, std::string* path);
  Result<FileInfo> Lookup(const std::string& path);
  Status SetNative(uint64_t file, bool native);

  // The file that one of the module's numbers means; asks about a number that is new.
  uint64_t FileOf(uint64_t number);

  // `call` with the number that the module knows the file by, and again under a newer one where it
  // turns out to be stale.
  template <typename Call>
  auto WithCurrentNumber(uint64_t file, const Call& call) {
    uint64_t number = CurrentOf(file);
    auto result = call(number);
    for (int i = 0; i < kMaxRetries && !result && result.error().code == ESTALE; ++i) {
      const std::optional<uint64_t> renewed = Refresh(number);
      if (!renewed) break;
      number = *renewed;
      result = call(number);
    }
    return result;
  }

  // Between batches of events: forgets what can be learnt anew once there is too much.
  void Trim();
  size_t Size() const;

 private:
  struct Known {
    FileInfo info;
    std::string path;
    uint64_t first = 0;        // the number that all other code knows the file by
    uint64_t current = 0;      // in the entry of the first: the one that the module knows
    std::deque<uint64_t> old;  // there, too: those between, which events may still have
    bool native = false;       // there, too: see SetNative
  };
  // A file, whatever its name: it may have several (hard links, symlinks).
  using Inode = std::tuple<uint32_t, uint32_t, uint64_t>;
  static Inode InodeOf(const FileInfo& info) { return {info.dev_major, info.dev_minor, info.ino}; }

  // What the module said of a file; returns its first number.
  uint64_t Learn(const FileInfo& info, const std::string& path);
  bool Link(Known* known);
  void MakeCurrent(Known* first, uint64_t number);
  uint64_t CurrentOf(uint64_t file) const;
  uint64_t CurrentLocked(uint64_t file) const;
  // A number turned out stale: the one that the file has now, if there still is that file; the same
  // one, where only its name had left the kernel's cache.
  std::optional<uint64_t> Refresh(uint64_t stale);
  void Forget(uint64_t first);

  static constexpr int kMaxRetries = 3;  // inodes come and go while a range is executed
  static constexpr size_t kMaxOld = 8;
  static constexpr size_t kMaxNumbers = 65536;

  const Module module_;
  mutable std::mutex mutex_;
  std::unordered_map<uint64_t, Known> by_number_;
  std::map<Inode, uint64_t> by_inode_;  // to the number seen last
};

}  // namespace ppc

#endif  // PPC_DAEMON_BACKEND_KMOD_KMOD_FILES_H_
