// SPDX-License-Identifier: Apache-2.0
// Owns the place of one user's bundles: a directory that only the user may access, with
//   key                  the secret that seals the lists (or elsewhere)
//   lock                 shared by processes that read or add, exclusive for a removal
//   objects/ab/DIGEST.F  file contents by their hash; F is the form, raw or zst
//   staging/             incomplete objects
//   bundles/ID/KEY       sealed lists
//   values/ID            see values.h
// Data is synced before it gets a name, and objects before the list.
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

// ID/KEY, or ID with an empty key_id: all bundles of the service.
Result<BundleName> ReadBundleName(const std::string& text);

class Store {
 public:
  struct Place {
    std::string directory;  // of all users
    std::string key_file;   // "" = beside the objects
    // Whether other machines write to it; default: by its file system's type.
    std::optional<bool> is_shared = std::nullopt;
  };
  enum class Use {
    kRead,   // ENOENT: no capture so far
    kWrite,  // creates missing parts
  };
  // Holds the shared lock while it lives.  ENOKEY: the given key file is missing; a key beside the
  // objects is created with the other missing parts.  EBUSY: a removal still runs after
  // `patience_ms`.
  static constexpr int kPatienceMs = 60'000;
  static Result<Store> Open(const Place& place, Use use, int patience_ms = kPatienceMs);

  // Sorted; all names, valid or not.
  Result<std::vector<BundleName>> List() const;
  // ENOENT: none.  Otherwise errors of Decode(), with the bundle's name.
  Result<Manifest> Load(const BundleName& name) const;
  // Replaces the bundle of this name.  Its objects are stored and synced already.
  Status Save(const Manifest& manifest) const;
  Status Remove(const BundleName& name) const;
  // Marks the bundle as used now.
  void Renew(const BundleName& name) const;
  // Removes all bundles of the service except `kept` and the `count` - 1 last saved or renewed;
  // returns how many.
  size_t RemoveOldest(const BundleName& kept, size_t count) const;

  bool HasLeftovers() const;  // unfinished files, of a running or killed process
  // Removes unreferenced objects and unfinished files; if other machines may be at work unseen,
  // only those a day old.  EBUSY: another ppcctl is still at work here after `patience_ms`, or a
  // list cannot be read.  ENOLCK: the store is unusable, since another process now has the lock.
  // Returns the number of files.
  Result<size_t> Sweep(int patience_ms = 0);

  // "objects/ab/DIGEST.zst"
  static std::string ObjectPath(const Entry& entry);
  UniqueFd OpenObject(const Entry& entry) const;  // invalid with errno set
  // Whether the object exists.  It then stays until a list can refer to it.
  bool Claim(const std::string& object) const;

  // Small texts of this user beside the bundles, sealed likewise.  EKEYREJECTED: sealed with
  // another secret, or changed.
  Result<std::string> LoadSealed(const std::string& path, size_t max_bytes) const;
  Status SaveSealed(const std::string& path, const std::string& text) const;

  int fd() const { return directory_.Get(); }
  const std::string& path() const { return path_; }

  // Error text: what failed with `what` in this store, and the remedy.
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
