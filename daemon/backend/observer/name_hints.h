// SPDX-License-Identifier: Apache-2.0
// Owns what the kernel told of the names of discovered files: the base name and the inode of the
// directory, of the last few and of those that are kept, and the paths of such directories.  A path
// from here is a hint: the caller checks which file it leads to.
//
// More names are kept than events wait for one.  From the first name on it takes 4 MiB, with long
// names 8 MiB.
// Threads: any.
#ifndef PPC_DAEMON_BACKEND_OBSERVER_NAME_HINTS_H_
#define PPC_DAEMON_BACKEND_OBSERVER_NAME_HINTS_H_

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
  // The kernel named a file.
  void Note(uint64_t file, uint64_t folder, std::string_view name);
  // Its name will be asked for: others that are only noted do not push it out.
  void Keep(uint64_t file);
  // Below the root; "": its name or its directory is not known.
  std::string PathOf(uint64_t file) const;
  // The file was found at `path`.  If that is the name that was noted, its directory is known now.
  void Learn(uint64_t file, const std::string& path);

 private:
  struct Name {
    uint64_t file = 0;
    uint64_t folder = 0;
    std::string name;
  };
  // The oldest is replaced first.
  struct Names {
    std::vector<Name> names;
    std::vector<uint32_t> places;  // in names, by file; direct-mapped
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

#endif  // PPC_DAEMON_BACKEND_OBSERVER_NAME_HINTS_H_
