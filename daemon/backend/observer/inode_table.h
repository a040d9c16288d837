// SPDX-License-Identifier: Apache-2.0
// Owns the listed files of one directory, by number and by device and inode of stat(), in little
// memory: 100,000 files with names of 13 bytes take 8 MB with their directories.
//
// Threads: one at a time.
#ifndef PPC_DAEMON_BACKEND_OBSERVER_INODE_TABLE_H_
#define PPC_DAEMON_BACKEND_OBSERVER_INODE_TABLE_H_

#include <sys/types.h>

#include <cstdint>
#include <memory_resource>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_set>
#include <utility>
#include <vector>

#include "daemon/backend/observer/observer_abi.h"

namespace ppc {

class InodeTable {
 public:
  struct File {
    uint32_t parent = 0;    // number of its directory
    std::string_view name;  // from a look-up: valid until the next change of the table
    dev_t dev = 0;
    ino_t ino = 0;
    obs_inode_key key{};  // as the page cache knows it
  };

  InodeTable() = default;
  ~InodeTable() = default;
  InodeTable(const InodeTable&) = delete;
  InodeTable& operator=(const InodeTable&) = delete;

  // 0: not listed.  Numbers start at 1 and are not reused.
  uint64_t NumberOf(dev_t dev, ino_t ino) const;
  // The number that the next new file gets.
  uint64_t NextNumber() const { return files_.size() + 1; }
  uint64_t Add(const File& file);
  // Gives the same device and inode another name, directory or key.
  void Change(uint64_t number, const File& file);
  void Remove(uint64_t number);
  // nullopt: unknown number, or removed.
  std::optional<File> Get(uint64_t number) const;
  // Files not removed.
  size_t Size() const { return by_stat_.size(); }
  // Numbers given so far.
  size_t Numbers() const { return files_.size(); }
  // Bytes of all names, those of removed files included.
  size_t NameBytes() const { return names_.size(); }

 private:
  struct Row {
    ino_t ino = 0;
    ino_t key_ino = 0;
    uint32_t name_at = kNoName;
    uint32_t parent = 0;
    uint32_t subvolume = 0;
    uint16_t dev = 0;      // index in devs_
    uint16_t key_dev = 0;  // index in key_devs_
  };
  using Stat = std::pair<dev_t, ino_t>;
  struct Hash {
    using is_transparent = void;
    const InodeTable* table;
    size_t operator()(const Stat& stat) const noexcept {
      return stat.first * 31 + stat.second * 0x9e3779b97f4a7c15;
    }
    size_t operator()(uint32_t number) const noexcept { return (*this)(table->StatOf(number)); }
  };
  struct Equal {
    using is_transparent = void;
    const InodeTable* table;
    bool operator()(uint32_t a, uint32_t b) const noexcept { return a == b; }
    bool operator()(const Stat& a, uint32_t b) const noexcept { return a == table->StatOf(b); }
    bool operator()(uint32_t a, const Stat& b) const noexcept { return table->StatOf(a) == b; }
  };

  Stat StatOf(uint32_t number) const noexcept {
    return {devs_[files_[number - 1].dev], files_[number - 1].ino};
  }
  uint32_t AddName(std::string_view name);
  void DropName(Row* row);

  static constexpr uint32_t kNoName = UINT32_MAX;  // removed

  std::vector<Row> files_;  // by number - 1
  std::vector<dev_t> devs_;
  std::vector<uint32_t> key_devs_;
  std::string names_;      // each ends with a NUL
  size_t dead_bytes_ = 0;  // of names_
  std::pmr::unsynchronized_pool_resource nodes_;
  std::pmr::unordered_set<uint32_t, Hash, Equal> by_stat_{0, Hash{this}, Equal{this}, &nodes_};
};

}  // namespace ppc

#endif  // PPC_DAEMON_BACKEND_OBSERVER_INODE_TABLE_H_
