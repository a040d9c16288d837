// SPDX-License-Identifier: Apache-2.0
// Owns the format of a bundle: text files in a tar archive (ustar), compressed with zstd.
// Threads: pure functions, any thread.
#ifndef PPC_EXTRAS_SUPPORT_ARCHIVE_H_
#define PPC_EXTRAS_SUPPORT_ARCHIVE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "daemon/base/result.h"

namespace ppc::ctl {

struct BundleFile {
  std::string name;  // at most 100 characters
  std::string text;
};

// `time_s`: since 1970, of all files.
std::string TarOf(const std::vector<BundleFile>& files, uint64_t time_s);

Result<std::string> Compressed(const std::string& data);

}  // namespace ppc::ctl

#endif  // PPC_EXTRAS_SUPPORT_ARCHIVE_H_
