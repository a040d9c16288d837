// SPDX-License-Identifier: Apache-2.0
// Owns the files and ranges that `warm` and `drop` are about: those of a path, or of a service's
// template; and reading or dropping them.
// Threads: pure functions, any thread.
#ifndef PPC_EXTRAS_CACHE_FILE_RANGES_H_
#define PPC_EXTRAS_CACHE_FILE_RANGES_H_

#include <cstdint>
#include <string>
#include <vector>

#include "daemon/base/result.h"
#include "tools/ppcctl/args.h"

namespace ppc::ctl {

struct FileRange {
  std::string path;
  uint64_t offset = 0;
  uint64_t bytes = 0;  // 0 = to the end
};

// Regular files below `path`, links followed, each file once (model hubs keep one copy and link
// to it).
Result<std::vector<std::string>> FilesBelow(const std::string& path);

// The operand's files; with --id or --param what the template of that service has of the mount
// that the operand names, in the order of reading.
Result<std::vector<FileRange>> RangesOf(const Args& args);

// What it has of its file as that is now; 0 where the file cannot be looked at.
uint64_t BytesOf(const FileRange& range);

// Reads it through the page cache, at most `limit` bytes.  The bytes read.
Result<uint64_t> WarmRange(const FileRange& range, uint64_t limit);
// Asks the kernel to drop what is clean and not mapped.
Status DropRange(const FileRange& range);

}  // namespace ppc::ctl

#endif  // PPC_EXTRAS_CACHE_FILE_RANGES_H_
