// SPDX-License-Identifier: Apache-2.0
// Owns names below a directory, for all backends: nothing opened here leads out of it, by ".." or a
// link or another mount.  The directory is opened by its path each time, so that nothing holds it
// while nobody asks.
// Threads: any.
#ifndef PPC_DAEMON_BACKEND_ROOT_FILES_H_
#define PPC_DAEMON_BACKEND_ROOT_FILES_H_

#include <cstdint>
#include <span>
#include <string>
#include <utility>

#include "daemon/backend/backend.h"
#include "daemon/base/result.h"
#include "daemon/base/unique_fd.h"

namespace ppc {

class RootFiles {
 public:
  explicit RootFiles(std::string root) : root_(std::move(root)) {}

  const std::string& root() const { return root_; }
  // For reading; "" is the directory itself.
  Result<UniqueFd> Open(const std::string& path) const;
  // See Backend::Read and Backend::List.
  Result<size_t> Read(const std::string& path, uint64_t offset, std::span<uint8_t> buffer) const;
  Status List(const std::string& path, const Backend::DirEntry& entry) const;
  // The path that `path` leads to by symbolic links that stay below (model hubs keep their files
  // so).  ELOOP: it leads out.
  Result<std::string> FollowLinks(const std::string& path) const;

 private:
  Result<UniqueFd> OpenRoot() const;

  const std::string root_;
};

}  // namespace ppc

#endif  // PPC_DAEMON_BACKEND_ROOT_FILES_H_
