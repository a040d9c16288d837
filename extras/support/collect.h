// SPDX-License-Identifier: Apache-2.0
// Owns the content of a bundle for support: answers of ppcd, the kernel and the file system,
// without secrets and of bounded size.  Changes nothing and reads no model.
// Owns the format of the bundle, too.
// Threads: one.
#ifndef PPC_EXTRAS_SUPPORT_COLLECT_H_
#define PPC_EXTRAS_SUPPORT_COLLECT_H_

#include <cstdint>
#include <string>
#include <vector>

#include "daemon/base/result.h"
#include "extras/doctor/system_snapshot.h"
#include "extras/watch/log_lines.h"

namespace ppc::ctl {

// Owns the format of a bundle: text files in a tar archive (ustar), compressed with zstd.
// Threads: pure functions, any thread.
struct BundleFile {
  std::string name;  // at most 100 characters
  std::string text;
};

// `time_s`: since 1970, of all files.
std::string TarOf(const std::vector<BundleFile>& files, uint64_t time_s);

Result<std::string> Compressed(const std::string& data);

// Limit of each file; a longer log loses its beginning, another file its end.
inline constexpr size_t kMostOfAFile = 1 << 20;

// Gathered answers; tests provide their own.
struct Gathered {
  SystemSnapshot snapshot;
  Json status;             // ppcd's answer; null if none
  std::string metrics;     // "" likewise
  std::string log_source;  // "journal", "ppcd", ""
  std::vector<LoggedLine> log;
  std::vector<std::string> errors;  // failed queries, a line each
};
Gathered Gather(unsigned timeout_ms);

// README.txt among them lists the files, what was left out and why.
std::vector<BundleFile> BundleOf(const Gathered& gathered);

}  // namespace ppc::ctl

#endif  // PPC_EXTRAS_SUPPORT_COLLECT_H_
