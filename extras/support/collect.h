// SPDX-License-Identifier: Apache-2.0
// Owns the content of a bundle for support: answers of ppcd, the kernel and the file system,
// without secrets and of bounded size.  Changes nothing and reads no model.
// Threads: one.
#ifndef PPC_EXTRAS_SUPPORT_COLLECT_H_
#define PPC_EXTRAS_SUPPORT_COLLECT_H_

#include <string>
#include <vector>

#include "extras/doctor/patient.h"
#include "extras/support/archive.h"
#include "tools/ppcctl/log_lines.h"

namespace ppc::ctl {

// Limit of each file; a longer log loses its beginning, another file its end.
inline constexpr size_t kMostOfAFile = 1 << 20;

// Gathered answers; tests provide their own.
struct Gathered {
  Patient patient;
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
