// SPDX-License-Identifier: Apache-2.0
// Owns where one user's bundles lie: a directory that is theirs alone, with
//   key                  the secret that seals their lists (or elsewhere)
//   lock                 shared by all who read or add, exclusive for a removal
//   objects/ab/DIGEST.F  what files hold, by the hash of that; F is the form, raw or zst
//   staging/             objects that are not whole yet
//   bundles/ID/KEY       sealed lists
//   values/ID            see values.h
// Bytes are the disk's before a name is given to them, objects' before the list's.
// Threads: one at a time.
#ifndef PPC_EXTRAS_ARTIFACT_STORE_H_
#define PPC_EXTRAS_ARTIFACT_STORE_H_

#include <optional>
#include <string>
#include <vector>

#include "daemon/base/result.h"
#include "daemon/base/unique_fd.h"
#include "extras/artifact/manifest.h"

namespace ppc::artifact {

struct BundleName {
  std::string service_id;
  std::string key_id;

  std::string Text() const { return service_id + "/" + key_id; }
  bool operator==(const BundleName&) const = default;
};

// ID/KEY, or ID with an empty key_id: all of the service's.
Result<BundleName> ReadBundleName(const std::string& text);

class Store {
 public:
  struct Place {
    std::string directory;  // of all users
    std::string key_file;   // "" = beside the objects
    // Whether other machines write to it; without a value as its file system lets suppose.
    std::optional<bool> is_shared = std::nullopt;
  };
  enum class Use {
    kRead,   // ENOENT: nothing was ever captured
    kWrite,  // makes what is missing
  };
  // Holds the lock, shared, as long as it lives.  ENOKEY: the key file given is not there; the
  // one beside the objects is made with what else is missing.
  // EBUSY: a removal is at work, after `patience_ms` still.
  static constexpr int kPatienceMs = 60'000;
  static Result<Store> Open(const Place& place, Use use, int patience_ms = kPatienceMs);

  // Sorted; whatever lies there, good or not.
  Result<std::vector<BundleName>> List() const;
  // ENOENT: there is none.  Otherwise as Decode(), the bundle named.
  Result<Manifest> Load(const BundleName& name) const;
  // In place of what has the name so far.  Its objects are there, and the disk's.
  Status Save(const Manifest& manifest) const;
  Status Remove(const BundleName& name) const;
  // As if it were saved now: it is in use.
  void Renew(const BundleName& name) const;
  // Removes all of that service but `kept` and those `count` - 1 that were saved or renewed last;
  // how many.
  size_t RemoveOldest(const BundleName& kept, size_t count) const;

  bool HasLeftovers() const;  // something half done, by a process at work or killed
  // Removes objects that no list names and what was left half done; where other machines may be at
  // work unseen only what is a day old.  EBUSY: another ppcctl is
  // at work here, after `patience_ms` still, or a list cannot be read.  ENOLCK: the store cannot be
  // used any more, the lock is another's now.  The number of files.
  Result<size_t> Sweep(int patience_ms = 0);

  // "objects/ab/DIGEST.zst"
  static std::string ObjectPath(const Entry& entry);
  UniqueFd OpenObject(const Entry& entry) const;  // invalid with errno set
  // Whether the object of that path is there.  It then stays until a list can name it.
  bool Claim(const std::string& object) const;

  // Small texts of this user's beside the bundles, sealed as these are.  EKEYREJECTED: with another
  // secret, or changed.
  Result<std::string> LoadSealed(const std::string& path, size_t max_bytes) const;
  Status SaveSealed(const std::string& path, const std::string& text) const;

  int fd() const { return directory_.Get(); }
  const std::string& path() const { return path_; }

  // What went wrong with `what` in this store, and what to do about it.
  Error Failure(const std::string& what, int code) const;

 private:
  Store() = default;
  Status OpenDirectory(const Place& place, Use use);
  Status LoadSecret(const std::string& file, Use use);
  Status Lock(Use use);
  Result<size_t> RemoveUnused() const;

  std::string path_;
  UniqueFd directory_;
  UniqueFd lock_;
  int patience_ms_ = 0;
  bool is_shared_ = false;
  std::string secret_;
};

}  // namespace ppc::artifact

#endif  // PPC_EXTRAS_ARTIFACT_STORE_H_
