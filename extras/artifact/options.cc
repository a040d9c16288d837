// SPDX-License-Identifier: Apache-2.0
#include "extras/artifact/options.h"

#include "daemon/machine/roots.h"
#include "tools/ppcctl/command_words.h"
#include "tools/ppcctl/environment.h"
#include "tools/ppcctl/user_dirs.h"

namespace ppc::ctl {

artifact::Store::Place ArtifactPlace(const Args& args) {
  return {args.Get("--dir", ArtifactDir()),
          args.Get("--key-file", FromEnvironment("PPC_ARTIFACT_KEY"))};
}

Result<std::vector<artifact::Root>> ArtifactRoots(const Args& args) {
  return artifact::RootsWith(artifact::OwnEnvironment(), args.All("--root"));
}

Result<artifact::Key> ArtifactKey(const Args& args, const std::vector<std::string>& command) {
  return artifact::MakeKey({artifact::MachineProbe(RootsFromEnvironment()),
                            artifact::PackageProbe(artifact::OwnEnvironment(), WordsOf(command)),
                            artifact::CommandProbe(command)},
                           args.All("--key"));
}

std::string TextOf(const std::vector<artifact::Difference>& differences) {
  std::string text;
  for (const artifact::Difference& difference : differences) {
    text += (text.empty() ? "" : "; ") + artifact::TextOf(difference);
  }
  return text;
}

}  // namespace ppc::ctl
