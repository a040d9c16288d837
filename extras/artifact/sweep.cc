// SPDX-License-Identifier: Apache-2.0
// Removes objects that no bundle refers to.
#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <unordered_set>

#include "extras/artifact/files_at.h"
#include "extras/artifact/store.h"

namespace ppc::artifact {
namespace {

// Longer than any capture, allowing for differing clocks of machines.
constexpr int64_t kSharedAgeS = 24 * 3600;

size_t RemoveAll(int directory, const std::string& path, bool is_shared,
                 const std::unordered_set<std::string>& kept) {
  size_t removed = 0;
  const Result<std::vector<std::string>> names = NamesAt(directory, path);
  if (!names) return 0;
  for (const std::string& name : *names) {
    const std::string file = path + "/" + name;
    if (kept.contains(file)) continue;
    if (is_shared && !IsOlderThan(directory, file, kSharedAgeS)) continue;
    if (unlinkat(directory, file.c_str(), 0) == 0) ++removed;
  }
  return removed;
}

}  // namespace

bool Store::HasLeftovers() const {
  const Result<std::vector<std::string>> names = NamesAt(fd(), "staging");
  return names && !names->empty();
}

Result<size_t> Store::Sweep(int patience_ms) {
  Result<size_t> removed =
      Error{EBUSY, "another ppcctl works in " + path_ + "; unused objects stay for now"};
  if (LockWithin(lock_.Get(), LOCK_EX, patience_ms) == 0) removed = RemoveUnused();
  // Failing to upgrade has cost us our shared lock; later processes wait only for the removal.
  if (LockWithin(lock_.Get(), LOCK_SH, patience_ms_) != 0) {
    return Error{ENOLCK, "another ppcctl keeps " + path_ + "/lock; wait for it, or end it"};
  }
  return removed;
}

Result<size_t> Store::RemoveUnused() const {
  size_t removed = RemoveAll(fd(), "staging", is_shared_, {});
  const Result<std::vector<BundleName>> bundles = List();
  if (!bundles) return bundles.error();
  std::unordered_set<std::string> kept;
  for (const BundleName& name : *bundles) {
    const Result<Manifest> manifest = Load(name);
    // Its writer may still need its objects.
    if (!manifest)
      return Error{EBUSY, manifest.error().message + "; until then unused objects stay"};
    for (const Entry& entry : manifest->entries) {
      if (entry.kind == Kind::kFile) kept.insert(ObjectPath(entry));
    }
  }
  const Result<std::vector<std::string>> shelves = NamesAt(fd(), "objects");
  if (!shelves) return Failure("list", shelves.error().code);
  for (const std::string& shelf : *shelves)
    removed += RemoveAll(fd(), "objects/" + shelf, is_shared_, kept);
  const Result<std::vector<std::string>> services = NamesAt(fd(), "bundles");
  if (services && !is_shared_) {
    for (const std::string& service : *services) {
      unlinkat(fd(), ("bundles/" + service).c_str(), AT_REMOVEDIR);  // empty directories only
    }
  }
  return removed;
}

}  // namespace ppc::artifact
