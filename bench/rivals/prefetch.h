// SPDX-License-Identifier: Apache-2.0
// Rivals that fill the page cache beside an unchanged loader.
// Threads: each function returns when the threads it started have ended.
#ifndef PPC_BENCH_RIVALS_PREFETCH_H_
#define PPC_BENCH_RIVALS_PREFETCH_H_

#include <cstdint>
#include <string>
#include <vector>

#include "bench/rivals/io.h"
#include "daemon/base/result.h"

namespace ppc::bench {

struct PrefetchConfig {
  uint32_t ranks = 1;
  uint32_t threads = 8;  // of each rank
  uint64_t block_bytes = 16 << 20;
  uint64_t window_bytes = 0;
};

// One posix_fadvise(WILLNEED) for each whole file.  The kernel cuts each to its read-ahead size.
Status WillNeedFiles(Io* io, const std::vector<std::string>& files);

// As vLLM does it: rank r takes files r, r + ranks, ...; each of its threads reads one file at a
// time in blocks from begin to end and throws the bytes away.  Returns the bytes read.
Result<uint64_t> PrefetchByRank(Io* io, const std::vector<std::string>& files,
                                const PrefetchConfig& config);

// A window of fixed size that slides over the files in their order as fast as the disk gives, and
// drops at its end what it reads at its front: it does not know where the reader is.  Returns the
// bytes read.
Result<uint64_t> SlideWindow(Io* io, const std::vector<std::string>& files,
                             const PrefetchConfig& config);

}  // namespace ppc::bench

#endif  // PPC_BENCH_RIVALS_PREFETCH_H_
