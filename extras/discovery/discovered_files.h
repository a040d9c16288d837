// SPDX-License-Identifier: Apache-2.0
// Owns the discovered files of a directory that has too many to list by name: 12 bytes for each
// file that was read, in a table of fixed size.  A file is identified by inode and generation, by
// which the file system opens it; its number is the place of its entry.
//
// Threads: any.
#ifndef PPC_EXTRAS_DISCOVERY_DISCOVERED_FILES_H_
#define PPC_EXTRAS_DISCOVERY_DISCOVERED_FILES_H_

#include <cstddef>
#include <cstdint>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

#include "daemon/backend/observer/file_discovery.h"

namespace ppc {

class DiscoveredFiles {
 public:
  static constexpr size_t kMostPlaces = 1 << 20;

  struct File {
    uint64_t ino = 0;
    uint32_t generation = 0;
  };

  // places: rounded down to a power of two, at least 16.  Memory is taken at the first Discover.
  explicit DiscoveredFiles(size_t places);

  // Returns the file's number.  If there is no room, replaces an unconfirmed entry, else any;
  // *gone: the replaced file, 0: none.  Returns 0 if the file was refused a while ago, or if its
  // inode number has more than 40 bits.
  uint64_t Discover(const File& file, uint64_t now_ns, File* gone);
  // nullopt: never discovered, or replaced.
  std::optional<File> Get(uint64_t number) const;
  // By inode alone, whatever the generation; 0: not discovered.
  uint64_t NumberOf(uint64_t ino) const;
  // Marks a file as the directory's; is_listed: the kernel reports it too.  False: already known.
  bool Confirm(uint64_t number, bool is_listed);
  bool IsConfirmed(uint64_t number) const;
  // Marks a file as not the directory's, for ten seconds.
  void Refuse(uint64_t number, uint64_t now_ns);
  void Forget(uint64_t number);
  // Number of confirmed files.
  size_t Files() const;

  // A bit for each of the first units of a file, for DroppableRanges; all clear for a new file.
  uint16_t Units(uint64_t number) const;
  void SetUnits(uint64_t number, uint16_t units);

 private:
  enum State : uint8_t { kFree, kNew, kRefused, kConfirmed, kListed };
  struct Row {
    uint32_t ino_low = 0;
    uint32_t generation = 0;
    uint16_t units = 0;  // bits, see Units; kRefused: time of the refusal, in seconds
    uint8_t ino_high = 0;
    uint8_t state = kFree;
  };
  static_assert(sizeof(Row) == 12);

  static uint64_t InoOf(const Row& row) { return uint64_t{row.ino_high} << 32 | row.ino_low; }
  static uint64_t NumberAt(size_t place, const Row& row);
  // One of the two sets that may hold an inode.
  size_t SetOf(uint64_t ino, int which) const;
  const Row* RowOf(uint64_t number) const;
  Row* RowOf(uint64_t number) { return const_cast<Row*>(std::as_const(*this).RowOf(number)); }
  Row* Find(uint64_t ino);
  Row* RoomFor(uint64_t ino);

  static constexpr size_t kWays = 8;
  static constexpr unsigned kPlaceBits = 20;
  static constexpr uint16_t kRefusedS = 10;

  const size_t sets_;
  mutable std::mutex mutex_;
  std::vector<Row> rows_;
  size_t files_ = 0;
  uint32_t turn_ = 0;
};

}  // namespace ppc

#endif  // PPC_EXTRAS_DISCOVERY_DISCOVERED_FILES_H_
