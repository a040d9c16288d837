// SPDX-License-Identifier: Apache-2.0
// Owns names below a directory, for all backends: nothing opened here leads out of it, by ".." or a
// link or another mount.  The directory is opened by its path each time, so that nothing holds it
// between questions; where it is a mount, it is looked at whether that is still the same one.
// Threads: any.
#ifndef PPC_DAEMON_BACKEND_ROOT_FILES_H_
#define PPC_DAEMON_BACKEND_ROOT_FILES_H_

#include <fcntl.h>
#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "daemon/backend/backend.h"
#include "daemon/base/result.h"
#include "daemon/base/unique_fd.h"

namespace ppc {

// Opens again, with these flags, what an O_PATH descriptor stands for, if it is a regular file or a
// directory: opening a device or a FIFO has effects, and any user may have put one there.
Result<UniqueFd> OpenPlain(int place, int flags);

// Until the buffer is full or the file ends; `path` is for the message.
Result<size_t> ReadAt(int fd, const std::string& path, uint64_t offset, std::span<uint8_t> buffer);

class RootFiles {
 public:
  // device: st_dev of the mount that the root is; absent: the directory that is there now, even
  // if it is exchanged later.
  explicit RootFiles(std::string root, std::optional<dev_t> device = std::nullopt);

  const std::string& root() const { return root_; }
  // By O_* flags beside O_CLOEXEC; "" is the directory itself.
  Result<UniqueFd> Open(const std::string& path, int flags = O_RDONLY) const;
  // See Backend::Read and Backend::List.
  Result<size_t> Read(const std::string& path, uint64_t offset, std::span<uint8_t> buffer) const;
  Status List(const std::string& path, const Backend::DirEntry& entry) const;
  // The path that `path` leads to by symbolic links that stay below (model hubs keep their files
  // so).  ELOOP: it leads out.
  Result<std::string> FollowLinks(const std::string& path) const;

 private:
  Result<UniqueFd> OpenRoot() const;

  const std::string root_;
  std::optional<dev_t> device_;
  ino_t inode_ = 0;  // 0: any
};

}  // namespace ppc

#endif  // PPC_DAEMON_BACKEND_ROOT_FILES_H_
