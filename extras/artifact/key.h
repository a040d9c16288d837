// SPDX-License-Identifier: Apache-2.0
// Owns what a bundle depends on: the parts of its key, found out without running anything.
// Threads: one at a time.
#ifndef PPC_EXTRAS_ARTIFACT_KEY_H_
#define PPC_EXTRAS_ARTIFACT_KEY_H_

#include <functional>
#include <string>
#include <vector>

#include "daemon/base/result.h"
#include "daemon/machine/roots.h"
#include "extras/artifact/manifest.h"
#include "extras/artifact/roots.h"

namespace ppc::artifact {

// Adds its parts; what it does not find it leaves out.
using Probe = std::function<void(Key* key)>;

// gpu, driver; cpu: the architecture and its flags.
Probe MachineProbe(const SysRoots& roots);

// python, and the version of each package that compiles or is compiled for, as the interpreter of
// `command` (else the environment's) has it installed; cuda: torch's, else the environment's.
Probe PackageProbe(const Environment& environment, const std::vector<std::string>& command);

// config: a digest of the words of a command, but for where it listens and its secrets.
Probe CommandProbe(const std::vector<std::string>& command);

// By all probes in turn, then each NAME=VALUE of `given` over them.
Result<Key> MakeKey(const std::vector<Probe>& probes, const std::vector<std::string>& given);

// The interpreter that a command runs with; "" = none is known.
std::string InterpreterOf(const Environment& environment, const std::vector<std::string>& command);

}  // namespace ppc::artifact

#endif  // PPC_EXTRAS_ARTIFACT_KEY_H_
