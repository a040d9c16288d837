// SPDX-License-Identifier: Apache-2.0
// Owns which executables the BPF programs report execs of, for one directory.
// Threads: At by any, Watch by one at a time.
#ifndef PPC_DAEMON_BACKEND_OBSERVER_EXECUTABLES_H_
#define PPC_DAEMON_BACKEND_OBSERVER_EXECUTABLES_H_

#include <set>
#include <span>
#include <string>

#include "daemon/backend/backend.h"
#include "daemon/backend/observer/programs.h"
#include "daemon/base/result.h"

namespace ppc {

class Executables {
 public:
  // programs must outlive this.
  explicit Executables(ObserverPrograms* programs) : programs_(programs) {}

  // Opens and maps the file, which blocks as long as its file system hangs.
  Result<Executable> At(const std::string& path) const;
  void Watch(std::span<const Executable> files);

 private:
  ObserverPrograms* const programs_;
  std::set<Executable> watched_;
};

}  // namespace ppc

#endif  // PPC_DAEMON_BACKEND_OBSERVER_EXECUTABLES_H_
