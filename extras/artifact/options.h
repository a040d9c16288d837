// SPDX-License-Identifier: Apache-2.0
// Owns the arguments of `artifact` and of `run --artifacts`.
#ifndef PPC_EXTRAS_ARTIFACT_OPTIONS_H_
#define PPC_EXTRAS_ARTIFACT_OPTIONS_H_

#include <string>
#include <vector>

#include "daemon/base/result.h"
#include "extras/artifact/key.h"
#include "extras/artifact/restore.h"
#include "extras/artifact/roots.h"
#include "extras/artifact/store.h"
#include "tools/ppcctl/args.h"

namespace ppc::ctl {

// Larger roots are taken for a mistake.
inline constexpr const char* kArtifactLimit = "8G";

// --dir and --key-file, $PPC_ARTIFACT_DIR and $PPC_ARTIFACT_KEY, else `artifacts` beside the
// template store.
artifact::Store::Place ArtifactPlace(const Args& args);

Result<std::vector<artifact::Root>> ArtifactRoots(const Args& args);

// This machine's key, with the values of --key.  `command`: starts the engine.
Result<artifact::Key> ArtifactKey(const Args& args, const std::vector<std::string>& command);

// One line for users.
std::string TextOf(const std::vector<artifact::Difference>& differences);

}  // namespace ppc::ctl

#endif  // PPC_EXTRAS_ARTIFACT_OPTIONS_H_
