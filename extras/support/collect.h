// SPDX-License-Identifier: Apache-2.0
// Owns what goes into a bundle for the person who is asked for help: what ppcd, the kernel and the
// file system tell, without secrets and of bounded size.  Changes nothing and reads nothing of
// models. Threads: one.
#ifndef PPC_EXTRAS_SUPPORT_COLLECT_H_
#define PPC_EXTRAS_SUPPORT_COLLECT_H_

#include <cstdint>
#include <string>
#include <vector>

#include "daemon/base/result.h"
#include "extras/doctor/patient.h"
#include "tools/ppcctl/log_lines.h"

namespace ppc::ctl {

// Owns the form of a bundle: files of text in a tar archive (ustar), compressed with zstd.
// Threads: pure functions, any thread.
struct BundleFile {
  std::string name;  // at most 100 characters
  std::string text;
};

// `time_s`: since 1970, of all files.
std::string TarOf(const std::vector<BundleFile>& files, uint64_t time_s);

Result<std::string> Compressed(const std::string& data);

// The limit of each file; a longer one loses its beginning (the log) or its end.
inline constexpr size_t kMostOfAFile = 1 << 20;

// What was asked and answered; tests bring their own.
struct Gathered {
  Patient patient;
  Json status;             // ppcd's answer; null where there is none
  std::string metrics;     // "" likewise
  std::string log_source;  // "journal", "ppcd", ""
  std::vector<LoggedLine> log;
  std::vector<std::string> errors;  // what could not be asked, a line each
};
Gathered Gather(unsigned timeout_ms);

// README.txt among them says what the others are, what was left out and why.
std::vector<BundleFile> BundleOf(const Gathered& gathered);

}  // namespace ppc::ctl

#endif  // PPC_EXTRAS_SUPPORT_COLLECT_H_
