// SPDX-License-Identifier: Apache-2.0
// Owns what files hold, on its way into the store and out of it: clones where the file system makes
// them, else zstd, else as it is.  A file is never in memory as a whole.
// Threads: one at a time.
#ifndef PPC_EXTRAS_ARTIFACT_OBJECTS_H_
#define PPC_EXTRAS_ARTIFACT_OBJECTS_H_

#include <cstdint>
#include <map>
#include <set>
#include <stop_token>
#include <string>

#include "daemon/base/result.h"
#include "extras/artifact/manifest.h"
#include "extras/artifact/store.h"

namespace ppc::artifact {

enum class Compress {
  kAuto,    // what cannot be cloned and gets smaller
  kAlways,  // what gets smaller
  kNever,
};

// Objects on their way in.  What is not committed is removed again.
class StagedObjects {
 public:
  StagedObjects(const Store& store, Compress compress) : store_(store), compress_(compress) {}
  ~StagedObjects();
  StagedObjects(const StagedObjects&) = delete;
  StagedObjects& operator=(const StagedObjects&) = delete;

  // Reads `fd` from its beginning to its end: size, digest and form of `entry`.  ECANCELED:
  // stopped; ESTALE: it has more than `size` bytes by now.
  Status Add(int fd, uint64_t size, const std::stop_token& stop, Entry* entry);
  // Gives them their names, all on disk before the first has its own, and after the last; names
  // that others gave meanwhile, too.
  Status Commit();

  bool is_empty() const { return staged_.empty(); }
  uint64_t stored_bytes() const { return stored_bytes_; }  // of what was not there

 private:
  Status Fill(int source, int target, uint64_t size, const std::stop_token& stop,
              Entry* entry) const;

  const Store& store_;
  const Compress compress_;
  std::map<std::string, std::string> staged_;  // name in the store -> name in staging
  std::set<std::string> shelves_;              // directories that have names of ours
  uint64_t stored_bytes_ = 0;
};

// Writes what `entry` holds to the empty file `target`, or with -1 only looks; whether it was
// cloned.  ENOENT: it is missing; EBADMSG: it is not what its name says, or cannot be read;
// ECANCELED; else what `target` says.
Result<bool> ReadObject(const Store& store, const Entry& entry, int target,
                        const std::stop_token& stop = {});

}  // namespace ppc::artifact

#endif  // PPC_EXTRAS_ARTIFACT_OBJECTS_H_
