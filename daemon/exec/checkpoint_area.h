// SPDX-License-Identifier: Apache-2.0
// Owns the memory in which a policy notes where its services are: a file that outlives the runner
// (the supervisor lends it), with a record for each service and one for the mount itself.
// Storing in a record never waits and never fails: its space is taken when it is handed out.
// Threads: the executor's.
#ifndef PPC_DAEMON_EXEC_CHECKPOINT_AREA_H_
#define PPC_DAEMON_EXEC_CHECKPOINT_AREA_H_

#include <ppc.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "daemon/base/result.h"
#include "daemon/base/unique_fd.h"

namespace ppc {

class CheckpointArea {
 public:
  static constexpr size_t kMaxBytes = PPC_MAX_CHECKPOINT;

  // A regular file, open for reading and writing; what an area has left in it, or anything else.
  static Result<std::unique_ptr<CheckpointArea>> Open(UniqueFd file);
  ~CheckpointArea();
  CheckpointArea(const CheckpointArea&) = delete;
  CheckpointArea& operator=(const CheckpointArea&) = delete;

  // A service begins: what one of its name has left is forgotten.  With is_resumed it goes on, and
  // has what it had.
  void Begin(const std::string& id, bool is_resumed);
  void End(const std::string& id);

  // The record of a service ("": of the mount itself): what it was the last time, when that was of
  // this size, else zero.  nullptr: too large, too many, no space.  Good until Begin or End.
  void* Record(const std::string& id, size_t bytes);

 private:
  static constexpr size_t kRecords = 257;  // services a supervisor knows of a mount, and the mount
  static constexpr size_t kIdBytes = 72;   // a service ID has at most 64

  struct Entry {
    uint64_t bytes;  // 0: free
    std::array<char, kIdBytes> id;

    bool Is(const std::string& name) const;
  };
  static constexpr size_t kTableBytes = (kRecords * sizeof(Entry) + 4095) / 4096 * 4096;
  static constexpr size_t kFileBytes = kTableBytes + kRecords * kMaxBytes;

  CheckpointArea(UniqueFd file, uint8_t* memory) : file_(std::move(file)), memory_(memory) {}
  Entry* Entries() { return reinterpret_cast<Entry*>(memory_); }
  size_t IndexOf(const Entry* entry) { return static_cast<size_t>(entry - Entries()); }
  Entry* Find(const std::string& id);
  Entry* FindFree();
  size_t OffsetOf(const Entry* entry);
  bool Clear(const Entry* entry, size_t bytes);
  void Free(Entry* entry);

  const UniqueFd file_;
  uint8_t* const memory_;
  std::array<bool, kRecords> is_known_{};  // of a service that this process was told of
};

}  // namespace ppc

#endif  // PPC_DAEMON_EXEC_CHECKPOINT_AREA_H_
