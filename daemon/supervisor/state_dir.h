// SPDX-License-Identifier: Apache-2.0
// Owns what ppcd remembers over its own restart: per registered mount one JSON
// file, replaced atomically; and the lock that keeps a second ppcd out.
// Threads: one.
#ifndef PPC_DAEMON_SUPERVISOR_STATE_DIR_H_
#define PPC_DAEMON_SUPERVISOR_STATE_DIR_H_

#include <string>
#include <vector>

#include "daemon/base/json.h"
#include "daemon/base/result.h"
#include "daemon/base/unique_fd.h"

namespace ppc::control {

class StateDir {
 public:
  // Creates the directory; EBUSY when another ppcd holds it.  A private one goes with this object,
  // and all that is in it: no later ppcd uses it.
  static Result<StateDir> Open(const std::string& path, bool is_private = false);
  ~StateDir();
  StateDir(const StateDir&) = delete;
  StateDir& operator=(const StateDir&) = delete;
  StateDir(StateDir&&) = default;
  StateDir& operator=(StateDir&&) = delete;

  const std::string& path() const { return path_; }

  // state: JSON.
  Status Save(const std::string& mount, const std::string& state) const;
  void Remove(const std::string& mount) const;

  // Unreadable files are renamed to *.bad, and named in `problems`.
  std::vector<Json> LoadAll(std::vector<std::string>& problems) const;

 private:
  StateDir(std::string path, UniqueFd lock, bool is_private)
      : path_(std::move(path)), lock_(std::move(lock)), is_private_(is_private) {}
  std::string FileOf(const std::string& mount) const;

  std::string path_;
  UniqueFd lock_;
  bool is_private_;
};

}  // namespace ppc::control

#endif  // PPC_DAEMON_SUPERVISOR_STATE_DIR_H_
