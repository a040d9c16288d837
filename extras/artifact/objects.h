// SPDX-License-Identifier: Apache-2.0
// Owns moving file contents into and out of the store: as clones if the file system can, else zstd,
// else raw.  A file is never in memory as a whole.
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
  kAuto,    // files that cannot be cloned and get smaller
  kAlways,  // files that get smaller
  kNever,
};

// Objects on their way into the store.  Uncommitted ones are removed.
class StagedObjects {
 public:
  StagedObjects(const Store& store, Compress compress) : store_(store), compress_(compress) {}
  ~StagedObjects();
  StagedObjects(const StagedObjects&) = delete;
  StagedObjects& operator=(const StagedObjects&) = delete;

  // Reads `fd` from beginning to end; sets size, digest and form of `entry`.  ECANCELED: stopped;
  // ESTALE: it grew beyond `size` bytes.
  Status Add(int fd, uint64_t size, const std::stop_token& stop, Entry* entry);
  // Renames the objects to their names.  All are on disk before the first has its name, and the
  // names are on disk at the return; also names that other processes gave meanwhile.
  Status Commit();

  bool is_empty() const { return staged_.empty(); }
  uint64_t stored_bytes() const { return stored_bytes_; }  // newly stored

 private:
  Status Fill(int source, int target, uint64_t size, const std::stop_token& stop,
              Entry* entry) const;

  const Store& store_;
  const Compress compress_;
  std::map<std::string, std::string> staged_;  // name in the store -> name in staging
  std::set<std::string> object_directories_;   // directories that contain names of ours
  uint64_t stored_bytes_ = 0;
};

// Writes the content of `entry` to the empty file `target`, or with -1 only checks it; returns
// whether it was cloned.  ENOENT: missing; EBADMSG: it differs from its digest, or cannot be read;
// ECANCELED; else the error of `target`.
Result<bool> ReadObject(const Store& store, const Entry& entry, int target,
                        const std::stop_token& stop = {});

}  // namespace ppc::artifact

#endif  // PPC_EXTRAS_ARTIFACT_OBJECTS_H_
