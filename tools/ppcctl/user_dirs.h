// SPDX-License-Identifier: Apache-2.0
// Owns where this user's things lie: root's in the daemon's places, another's below their home.
#ifndef PPC_TOOLS_PPCCTL_USER_DIRS_H_
#define PPC_TOOLS_PPCCTL_USER_DIRS_H_

#include <string>
#include <vector>

#include "daemon/base/result.h"

namespace ppc::ctl {

// $PPC_TEMPLATE_DIR; else /var/lib/ppc/templates for root, $XDG_STATE_HOME/ppc/templates or
// ~/.local/state/ppc/templates for others.  "" = an ordinary user without a home.
std::string TemplateDir();

// $PPC_ARTIFACT_DIR; else `artifacts` beside TemplateDir().
std::string ArtifactDir();

// A fresh directory of mode 0700 for what lives as long as one command: below $XDG_RUNTIME_DIR,
// /run/ppc or /tmp, the first that can be written.
Result<std::string> MakeRuntimeDir();

// mkdir -p; what is new is an ordinary user's alone, and root's for all to read.
Status MakeStateDirectories(const std::string& path);

}  // namespace ppc::ctl

#endif  // PPC_TOOLS_PPCCTL_USER_DIRS_H_
