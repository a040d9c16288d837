// SPDX-License-Identifier: Apache-2.0
// Owns watching which model files a process and its descendants have open or mapped, for a command
// whose words name none.
// Lists the descendants of a process.
// Threads: a watch looks from a thread of its own; the rest is for any.
#ifndef PPC_EXTRAS_LEARNT_MODELS_OPEN_MODELS_H_
#define PPC_EXTRAS_LEARNT_MODELS_OPEN_MODELS_H_

#include <sys/types.h>

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <thread>

#include "daemon/machine/roots.h"

namespace ppc::ctl {

// Owns the question which processes descend from one.
// Threads: a pure function of /proc, any thread.
//
// `pid` itself and all that descend from it now.
std::set<pid_t> Descendants(const SysRoots& roots, pid_t pid);

using FileSizes = std::map<std::string, uint64_t>;  // bytes by path

// Adds the model files of at least `min_bytes` that `pid` and its descendants have open or mapped
// now.  True if some are new.
bool AddOpenModels(const SysRoots& roots, pid_t pid, uint64_t min_bytes, FileSizes& files);

// Looks now and then, more and more seldom, and tells after each look that found something new.
class OpenModelsWatch {
 public:
  using Handler = std::function<void(const FileSizes&)>;  // by the watch's thread

  OpenModelsWatch(const SysRoots& roots, pid_t pid, uint64_t min_bytes, Handler on_new);
  ~OpenModelsWatch();
  OpenModelsWatch(const OpenModelsWatch&) = delete;
  OpenModelsWatch& operator=(const OpenModelsWatch&) = delete;

 private:
  void Run(const SysRoots& roots, pid_t pid, uint64_t min_bytes, const Handler& on_new);

  std::mutex mutex_;
  std::condition_variable wake_;
  bool is_ending_ = false;
  std::thread thread_;
};

}  // namespace ppc::ctl

#endif  // PPC_EXTRAS_LEARNT_MODELS_OPEN_MODELS_H_
