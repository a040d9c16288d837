// SPDX-License-Identifier: Apache-2.0
// Owns putting a bundle's files back into roots.
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

// A part of the key that is another here than where the bundle was captured.
struct Difference {
  std::string part;
  std::optional<std::string> here;      // nullopt = it has none
  std::optional<std::string> captured;  // the same
};
std::vector<Difference> Differences(const Key& here, const Key& captured);
// "driver is '550.54' here, '535.1' there"; of long values what is not in both.
std::string TextOf(const Difference& difference);

// The bundle for a key, or why there is none.
struct Match {
  std::optional<Manifest> manifest;
  // Otherwise the service's nearest, and where it differs; empty = it has no bundle at all.
  BundleName nearest;
  std::vector<Difference> differences;
};
// As Store::Load() for the bundle that has the key.
Result<Match> FindBundle(const Store& store, const std::string& service_id, const Key& key);

struct Restored {
  uint64_t files = 0;
  uint64_t bytes = 0;
  uint64_t cloned = 0;  // of the files
  uint64_t kept = 0;    // what was there already, whatever it holds
};

// Adds what the roots lack; what is there stays, but for a file that a restore wrote and the
// machine lost power before it was the disk's: of the captured time and shorter.  All is laid out
// beside the root first, as it has to be, then renamed: on any error nothing of it is seen.
Result<Restored> Restore(const Store& store, const Manifest& manifest,
                         const std::vector<Root>& roots, const std::stop_token& stop = {});

}  // namespace ppc::artifact

#endif  // PPC_EXTRAS_ARTIFACT_RESTORE_H_
