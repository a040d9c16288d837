// SPDX-License-Identifier: Apache-2.0
// Owns the causes that `ppcctl doctor` knows; each check adds its findings.
// Owns the form of a finding, too.
// Threads: pure functions of the snapshot and of the files that it names.
#ifndef PPC_EXTRAS_DOCTOR_CHECKS_H_
#define PPC_EXTRAS_DOCTOR_CHECKS_H_

#include <string>
#include <vector>

#include "extras/doctor/system_snapshot.h"

namespace ppc::ctl {

// Owns a finding of `ppcctl doctor`: a cause and its remedy.
struct Finding {
  std::string code;    // for programs: "no-btf"; never changes
  std::string about;   // a directory, a service, a process; "" = the machine
  std::string cause;   // one line
  std::string remedy;  // a shell command; text if none helps
  // False: no fault, but the reason why a start is not faster.
  bool is_problem = true;
};

using Findings = std::vector<Finding>;

// The kernel, the module, ppcd and its rights: no-btf, lockdown, no-module, unsigned-module,
// no-device, device-permission, no-capability, daemon-down, daemon-hangs, daemon-refuses, off.
void CheckMachine(const SystemSnapshot& snapshot, Findings* out);
void CheckDaemon(const SystemSnapshot& snapshot, Findings* out);

// A directory and its files: not-registered, policy-failed, policy-missing, runner-stopped,
// link-leaves, dirty, past-page-cache, cached.
void CheckDirectory(const SystemSnapshot& snapshot, const DirectorySnapshot& dir, Findings* out);

// The services of a directory: wrong-cgroup, cgroup-limit, io-limit, template-stale,
// template-differs, guard-limits, read-errors, events-lost, device-slow.
void CheckServices(const SystemSnapshot& snapshot, const DirectorySnapshot& dir, Findings* out);

// The readers, and their way of reading: o-direct, madv-random, own-prefetch.
void CheckReaders(const SystemSnapshot& snapshot, const DirectorySnapshot& dir, Findings* out);
// own-prefetch of the command to be started.
void CheckCommand(const SystemSnapshot& snapshot, Findings* out);

// Runs all checks; `doctor --json` prints the result.
Findings Examine(const SystemSnapshot& snapshot);
Json FindingsJson(const Findings& findings);

}  // namespace ppc::ctl

#endif  // PPC_EXTRAS_DOCTOR_CHECKS_H_
