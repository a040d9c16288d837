// SPDX-License-Identifier: Apache-2.0
// Owns the key of a bundle, the values that its content depends on, found without running anything.
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

// Adds its parts of the key; leaves out what it does not find.
using Probe = std::function<void(Key* key)>;

// gpu, driver; cpu: the architecture and its flags.
Probe MachineProbe(const SysRoots& roots);

// python, and the version of each package that compiles or is compiled for, as installed for the
// interpreter of `command` (else the environment's); cuda: torch's, else the environment's.
Probe PackageProbe(const Environment& environment, const std::vector<std::string>& command);

// config: a digest of a command's words, without its addresses and secrets.
Probe CommandProbe(const std::vector<std::string>& command);

// Runs all probes in turn, then overrides with each NAME=VALUE of `given`.
Result<Key> MakeKey(const std::vector<Probe>& probes, const std::vector<std::string>& given);

// The interpreter that a command runs with; "" = unknown.
std::string InterpreterOf(const Environment& environment, const std::vector<std::string>& command);

}  // namespace ppc::artifact

#endif  // PPC_EXTRAS_ARTIFACT_KEY_H_
