// SPDX-License-Identifier: Apache-2.0
// Owns restoring a bundle's files into roots.
// Threads: one at a time.
#ifndef PPC_EXTRAS_ARTIFACT_RESTORE_H_
#define PPC_EXTRAS_ARTIFACT_RESTORE_H_

#include <cstdint>
#include <optional>
#include <stop_token>
#include <string>
#include <vector>

#include "daemon/base/result.h"
#include "extras/artifact/manifest.h"
#include "extras/artifact/store.h"

namespace ppc::artifact {

// A part of the key that differs between here and the capture.
struct Difference {
  std::string part;
  std::optional<std::string> here;      // nullopt = not set
  std::optional<std::string> captured;  // likewise
};
std::vector<Difference> Differences(const Key& here, const Key& captured);
// "driver is '550.54' here, '535.1' there"; for long values only the differing words.
std::string TextOf(const Difference& difference);

// The bundle for a key, or why there is none.
struct Match {
  std::optional<Manifest> manifest;
  // Otherwise the service's most similar bundle, and the differences; empty = it has no bundle.
  BundleName nearest;
  std::vector<Difference> differences;
};
// Errors as Store::Load() for the bundle with the key.
Result<Match> FindBundle(const Store& store, const std::string& service_id, const Key& key);

struct Restored {
  uint64_t files = 0;
  uint64_t bytes = 0;
  uint64_t cloned = 0;  // of the files
  uint64_t kept = 0;    // existed already, with any content
};

// Adds the files that the roots lack.  Existing files stay, except those of an earlier restore that
// lost power before they were on disk: they have the captured time and are too short.  Files are
// first prepared beside the root, then renamed: after an error none of them is visible.
Result<Restored> Restore(const Store& store, const Manifest& manifest,
                         const std::vector<Root>& roots, const std::stop_token& stop = {});

}  // namespace ppc::artifact

#endif  // PPC_EXTRAS_ARTIFACT_RESTORE_H_
