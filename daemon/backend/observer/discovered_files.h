// SPDX-License-Identifier: Apache-2.0
// Owns the files of a directory that has more of them than are listed by name: 12 bytes for
// each that was read, whatever its name is, in a table that does not grow.  A file is an inode
// and its generation, which is what the file system opens it by; its number says where its entry
// is.
//
// Threads: any.
#ifndef PPC_DAEMON_BACKEND_OBSERVER_DISCOVERED_FILES_H_
#define PPC_DAEMON_BACKEND_OBSERVER_DISCOVERED_FILES_H_

#include <cstddef>
#include <cstdint>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

namespace ppc {

class DiscoveredFiles {
 public:
  static constexpr size_t kMostPlaces = 1 << 20;
  static constexpr uint64_t kMark = uint64_t{1} << 39;  // of numbers; policies have 40 bits
  static constexpr unsigned kUnits = 16;

  struct File {
    uint64_t ino = 0;
    uint32_t generation = 0;
  };

  // places: rounded down to a power of two, 16 at least.  Nothing is taken before the first Meet.
  explicit DiscoveredFiles(size_t places);

  static bool IsDiscovered(uint64_t number) { return (number & kMark) != 0; }

  // Its number; where there is no room one that was not confirmed goes for it, else any.  0: it was
  // refused a while ago, or its inode's number has more than 40 bits.  *gone: the one that went, 0:
  // none.
  uint64_t Discover(const File& file, uint64_t now_ns, File* gone);
  // nullopt: never discovered, or gone.
  std::optional<File> Get(uint64_t number) const;
  // Whatever its generation is; 0: not discovered.
  uint64_t NumberOf(uint64_t ino) const;
  // It is one of the directory's; is_listed: and the kernel tells of it.  False: that was known.
  bool Confirm(uint64_t number, bool is_listed);
  bool IsConfirmed(uint64_t number) const;
  // It is none, which is believed for ten seconds.
  void Refuse(uint64_t number, uint64_t now_ns);
  void Forget(uint64_t number);
  // Those that are the directory's.
  size_t Files() const;

  // A mark for each of the first units of a file, for who keeps such; a new file has none.
  uint16_t Units(uint64_t number) const;
  void SetUnits(uint64_t number, uint16_t units);

 private:
  enum State : uint8_t { kFree, kNew, kRefused, kConfirmed, kListed };
  struct Row {
    uint32_t ino_low = 0;
    uint32_t generation = 0;
    uint16_t units = 0;  // kRefused: when, in seconds
    uint8_t ino_high = 0;
    uint8_t state = kFree;
  };
  static_assert(sizeof(Row) == 12);

  static uint64_t InoOf(const Row& row) { return uint64_t{row.ino_high} << 32 | row.ino_low; }
  static uint64_t NumberAt(size_t place, const Row& row);
  // One of the two sets that an inode may be in.
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

#endif  // PPC_DAEMON_BACKEND_OBSERVER_DISCOVERED_FILES_H_
