// SPDX-License-Identifier: Apache-2.0
// Owns the verbs `artifact ...` and `service env`; extra.cc has their table.
#ifndef PPC_EXTRAS_ARTIFACT_VERBS_H_
#define PPC_EXTRAS_ARTIFACT_VERBS_H_

#include "tools/ppcctl/args.h"

namespace ppc::ctl {

int ArtifactCapture(const Args& args);
int ArtifactRestore(const Args& args);
int ArtifactVerify(const Args& args);
int ArtifactList(const Args& args);
int ArtifactRm(const Args& args);
int ServiceEnv(const Args& args);

}  // namespace ppc::ctl

#endif  // PPC_EXTRAS_ARTIFACT_VERBS_H_
