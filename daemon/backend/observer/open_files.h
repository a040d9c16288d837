// SPDX-License-Identifier: Apache-2.0
// Owns the descriptors of the files that are being loaded or evicted: open a little longer than one
// step takes, since the next follows at once, but no longer, since an open file holds the file
// system below.
// Threads: any.
#ifndef PPC_DAEMON_BACKEND_OBSERVER_OPEN_FILES_H_
#define PPC_DAEMON_BACKEND_OBSERVER_OPEN_FILES_H_

#include <cstdint>
#include <memory>
#include <mutex>
#include <unordered_map>

#include "daemon/backend/observer/observer_files.h"
#include "daemon/base/result.h"
#include "daemon/base/unique_fd.h"

namespace ppc {

class OpenFiles {
 public:
  struct Opened {
    UniqueFd fd;
    bool has_own_pages;  // asked once: the file system is not asked again for the file's pages

    int Get() const { return fd.Get(); }
  };
  using Fd = std::shared_ptr<const Opened>;

  // index must outlive this.
  explicit OpenFiles(ObserverFiles* index) : index_(index) {}

  // Not `is_kept`: open for as long as the caller has it.
  Result<Fd> Open(uint64_t file, bool is_kept = true);
  // Stays open for half a minute without use: opening it again would drop what its reader has read.
  void Keep(uint64_t file);
  // False: none is open any more.
  bool CloseIdle(uint64_t now_ns);

 private:
  struct OpenFile {
    Fd fd;
    uint64_t used_ns = 0;
    uint64_t keep_ns = 0;  // unused
  };

  ObserverFiles* const index_;
  std::mutex mutex_;
  std::unordered_map<uint64_t, OpenFile> files_;
};

}  // namespace ppc

#endif  // PPC_DAEMON_BACKEND_OBSERVER_OPEN_FILES_H_
