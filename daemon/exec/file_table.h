// SPDX-License-Identifier: Apache-2.0
// Owns what the runtime knows about files: number to path and back, sizes; asks the
// backend at most every few seconds about each.  Nothing is locked while it is asked.
// Threads: any.
#ifndef PPC_DAEMON_EXEC_FILE_TABLE_H_
#define PPC_DAEMON_EXEC_FILE_TABLE_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "daemon/backend/backend.h"
#include "daemon/policy/io_check.h"

namespace ppc {

struct KnownFile {
  FileInfo info;
  std::string path;
  uint64_t checked_ns = 0;
  bool is_asked = false;  // it is old, and is being renewed
  uint64_t used_ns = 0;   // when it was last looked at, or learnt
};

// What an event's handler needs of a file: a copy, so that nothing is locked per event and hooks
// may ask about files meanwhile.
struct FileCopy {
  uint64_t file = 0;  // 0: none
  uint64_t bytes = 0;
  uint32_t dev_major = 0;
  uint32_t dev_minor = 0;
  uint64_t fresh_until_ns = 0;
  std::string path;
};

class FileTable : public FileResolver {
 public:
  explicit FileTable(Backend* backend) : backend_(backend) {}

  // Before anything is looked up: what is old goes on being used, and `renew` is called, which
  // has Renew called where waiting does no harm; false: not now.
  void UseRenewal(std::function<bool(uint64_t file)> renew) { renew_ = std::move(renew); }
  void Renew(uint64_t file);
  // What is known of a file, without asking; false: nothing.
  bool Peek(uint64_t file, uint64_t now_ns, FileCopy* out);
  // Asks if need be.  False: the file is gone.
  bool Copy(uint64_t file, uint64_t now_ns, FileCopy* out);
  bool InfoOf(uint64_t file, uint64_t now_ns, FileInfo* out);
  // A service starts: what was found by path before is asked for again, as a file may just have
  // been replaced.
  void AskAnew() { anew_ns_.store(backend_->NowNs(), std::memory_order_relaxed); }
  // By path; asks the backend when not fresh.
  Result<FileInfo> Find(const std::string& path);

  bool SizeOf(uint64_t file, uint64_t* bytes) override;
  bool FindPath(const std::string& path, uint64_t* file, uint64_t* bytes) override;

  std::vector<uint64_t> Files() const;
  size_t Size() const;
  uint64_t Bytes() const;  // of all files together
  // Between batches: once there are too many, forgets those that were not used for longest.
  void Trim();
  // Numbers of files that were forgotten and may still have pages in the cache.  The caller gives
  // back those that have.
  std::vector<uint64_t> TakeForgotten();
  void KeepForgotten(std::span<const uint64_t> files);

 private:
  void ForgetOldest();
  Result<FileInfo> AskName(uint64_t file, std::string* path);
  Result<FileInfo> AskNumber(const std::string& path);
  void NoteAnswer(uint64_t asked_ns);
  void Learn(const FileInfo& info, const std::string& path, uint64_t now);
  bool Ask(uint64_t file, uint64_t now);
  void Unname(const KnownFile& known);
  // Calls use(known) under the lock if there is anything to be used; whether it did.
  template <typename Use>
  bool WithKnown(uint64_t file, uint64_t now_ns, Use use);

  static constexpr uint64_t kFreshNs = 2ULL * 1000 * 1000 * 1000;
  static constexpr uint64_t kRenewalNs = 100 * 1000 * 1000;
  static constexpr uint64_t kSlowNs = 20 * 1000 * 1000;
  static constexpr size_t kMaxFiles = 16384;  // 270 bytes each, with names as long as a hash
  static constexpr size_t kMaxForgotten = 262144;

  Backend* const backend_;
  std::function<bool(uint64_t file)> renew_;
  std::atomic<uint64_t> anew_ns_{0};
  mutable std::mutex mutex_;
  std::unordered_map<uint64_t, KnownFile> by_id_;
  std::unordered_map<std::string_view, uint64_t> by_path_;  // of the paths in by_id_
  std::vector<uint64_t> forgotten_;
};

}  // namespace ppc

#endif  // PPC_DAEMON_EXEC_FILE_TABLE_H_
