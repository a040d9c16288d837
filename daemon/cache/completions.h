// SPDX-License-Identifier: Apache-2.0
// Owns the way results go from loader threads and evictor back to the executor.
// Threads: Push by any; Take by the executor, which polls fd().
#ifndef PPC_DAEMON_CACHE_COMPLETIONS_H_
#define PPC_DAEMON_CACHE_COMPLETIONS_H_

#include <cstdint>
#include <mutex>
#include <vector>

#include "daemon/base/result.h"
#include "daemon/base/unique_fd.h"

namespace ppc {

// What became of one range; becomes struct ppc_result.
struct IoResult {
  bool is_load = true;
  uint32_t group = 0;
  uint32_t service = 0;
  uint64_t payer = 0;  // its serial: the service may have ended meanwhile
  uint64_t file = 0;
  uint64_t offset = 0;
  uint64_t size = 0;
  uint64_t cookie = 0;
  uint64_t ok = 0;
  uint64_t resident = 0;
  uint64_t failed = 0;
  uint64_t mapped = 0;
  bool interrupted = false;
  bool unmap = false;       // of a drop: mapped pages, too
  bool is_refused = false;  // by the guard: nothing was done
  int error = 0;            // positive errno
};

class Completions {
 public:
  Completions();

  void Push(const IoResult& result);
  // Wakes the executor without a result (there is room again).
  void WakeThreads();
  // Swaps what has gathered into *out (which should be empty, and keeps its memory).
  void Take(std::vector<IoResult>* out);
  int fd() const { return wake_.Get(); }

 private:
  void KickLocked();

  const UniqueFd wake_;
  std::mutex mutex_;
  std::vector<IoResult> results_;
  bool signalled_ = false;
};

}  // namespace ppc

#endif  // PPC_DAEMON_CACHE_COMPLETIONS_H_
