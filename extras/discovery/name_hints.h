// SPDX-License-Identifier: Apache-2.0
// Owns the kernel's hints to names of discovered files: base name and inode of the directory, for
// the last few files and those to be kept, and the paths of these directories.  A path from here is
// only a hint: the caller checks which file it names.
//
// More names are kept than events can be waiting for one.  Takes 4 MiB from the first name on, with
// long names 8 MiB.
// Threads: any.
#ifndef PPC_EXTRAS_DISCOVERY_NAME_HINTS_H_
#define PPC_EXTRAS_DISCOVERY_NAME_HINTS_H_

#include <cstddef>
#include <cstdint>
#include <mutex>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace ppc {

class NameHints {
 public:
  // Notes a name that the kernel reported.
  void Note(uint64_t file, uint64_t folder, std::string_view name);
  // The name will be needed: names only noted do not replace it.
  void Keep(uint64_t file);
  // Path below the root; "": its name or directory is unknown.
  std::string PathOf(uint64_t file) const;
  // The file was found at `path`.  If its name is the noted one, its directory's path is now known.
  void Learn(uint64_t file, const std::string& path);

 private:
  struct Name {
    uint64_t file = 0;
    uint64_t folder = 0;
    std::string name;
  };
  // A ring: the oldest entry is replaced first.
  struct Names {
    std::vector<Name> names;
    std::vector<uint32_t> places;  // indexes into names, by file; direct-mapped
    size_t next = 0;               // in names

    Name* Add(uint64_t file);
    const Name* Find(uint64_t file) const;
  };
  const Name* Find(uint64_t file) const;

  static constexpr size_t kNoted = 2048;
  static constexpr size_t kKept = 40960;
  static constexpr size_t kFolders = 1024;

  mutable std::mutex mutex_;
  Names noted_;
  Names kept_;
  std::unordered_map<uint64_t, std::string> folders_;
};

}  // namespace ppc

#endif  // PPC_EXTRAS_DISCOVERY_NAME_HINTS_H_
