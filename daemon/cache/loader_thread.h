// SPDX-License-Identifier: Apache-2.0
// Owns what one loader thread is and does: where it is, and the chunk it loads.
// Threads: none of its own; the loader's.
#ifndef PPC_DAEMON_CACHE_LOADER_THREAD_H_
#define PPC_DAEMON_CACHE_LOADER_THREAD_H_

#include <cstddef>
#include <optional>
#include <vector>

#include "daemon/cache/load_chunk.h"
#include "daemon/cache/load_queue.h"

namespace ppc {

struct LoaderThread {
  size_t index = 0;  // among those of its kind
  int node = 0;
  bool is_for_small = false;
  std::vector<const Payer*> looked;  // at their memory, for the chunk that is being taken
  std::optional<LoadChunk> chunk;
};

}  // namespace ppc

#endif  // PPC_DAEMON_CACHE_LOADER_THREAD_H_
