// SPDX-License-Identifier: Apache-2.0
// Owns the descriptors of files being loaded or evicted.  A file stays open a little longer than
// one step, for the next step, but no longer, since an open file keeps its file system from being
// unmounted.
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
    bool has_own_pages;  // asked once per open of the file

    int Get() const { return fd.Get(); }
  };
  using Fd = std::shared_ptr<const Opened>;

  // index must outlive this.
  explicit OpenFiles(ObserverFiles* index) : index_(index) {}

  // `is_kept` false: open only while the caller holds it.
  Result<Fd> Open(uint64_t file, bool is_kept = true);
  // Keeps it open for half a minute without use: opening it again would drop its reader's pages.
  void Keep(uint64_t file);
  // False: no file is open any more.
  bool CloseIdle(uint64_t now_ns);

 private:
  struct OpenFile {
    Fd fd;
    uint64_t used_ns = 0;
    uint64_t keep_ns = 0;  // while unused
  };

  ObserverFiles* const index_;
  std::mutex mutex_;
  std::unordered_map<uint64_t, OpenFile> files_;
};

}  // namespace ppc

#endif  // PPC_DAEMON_BACKEND_OBSERVER_OPEN_FILES_H_
