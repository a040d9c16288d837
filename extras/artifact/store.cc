// SPDX-License-Identifier: Apache-2.0
#include "extras/artifact/store.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "daemon/base/digests.h"
#include "daemon/base/files.h"
#include "daemon/wire/service_id.h"
#include "extras/artifact/files_at.h"

namespace ppc::artifact {
namespace {

constexpr const char* kBundles = "bundles";
constexpr size_t kMinSecret = 16;
constexpr size_t kMaxSecret = 4096;

bool IsKeyId(std::string_view text) {
  return text.size() == 32 && text.find_first_not_of("0123456789abcdef") == std::string_view::npos;
}

std::string PathOf(const BundleName& name) {
  return std::string(kBundles) + "/" + name.service_id + "/" + name.key_id;
}

constexpr size_t kSealBytes = 5 + 64 + 1;

std::string SealOf(const std::string& secret, const std::string& text) {
  return "hmac " + HmacSha256Hex(secret, text) + "\n";
}

// Creates a key atomically, and never replaces one.
Status MakeKey(int directory, const std::string& path) {
  std::string secret(32, '\0');
  if (getentropy(secret.data(), secret.size()) != 0) return PosixError("getentropy", errno);
  const std::string fresh = path + "." + RandomName();
  if (Status status = WriteFileAt(directory, fresh, secret, 0600); !status) return status.error();
  const bool is_linked = linkat(directory, fresh.c_str(), directory, path.c_str(), 0) == 0;
  const int code = errno;
  unlinkat(directory, fresh.c_str(), 0);
  if (!is_linked && code != EEXIST) return PosixError("link " + path, code);
  const size_t slash = path.rfind('/');
  const std::string parent = slash == std::string::npos ? "." : path.substr(0, slash + 1);
  if (const int failed = SyncDirectoryAt(directory, parent); failed != 0) {
    return PosixError("fsync " + parent, failed);
  }
  return Ok();
}

}  // namespace

Result<BundleName> ReadBundleName(const std::string& text) {
  const size_t slash = text.find('/');
  BundleName name{text.substr(0, slash), slash == std::string::npos ? "" : text.substr(slash + 1)};
  if (Status status = control::CheckServiceId(name.service_id); !status) return status.error();
  if (slash != std::string::npos && !IsKeyId(name.key_id)) {
    return Error{EINVAL, "'" + text + "' is not ID/KEY as `ppcctl artifact list` shows it"};
  }
  return name;
}

Error Store::Failure(const std::string& what, int code) const {
  Error error = PosixError("artifacts: " + what + " in " + path_, code);
  if (code == ENOSPC || code == EDQUOT) {
    error.message += "; make room there, remove some (ppcctl artifact rm), or give --dir";
  } else if (code == EROFS || code == EACCES || code == EPERM) {
    error.message += "; make it writable for this user, or give --dir";
  }
  return error;
}

Result<Store> Store::Open(const Place& place, Use use, int patience_ms) {
  if (place.directory.empty()) {
    return Error{ENOENT, "nowhere to keep artifacts: set HOME, XDG_STATE_HOME or PPC_ARTIFACT_DIR"};
  }
  Store store;
  store.patience_ms_ = patience_ms;
  if (Status status = store.OpenDirectory(place, use); !status) return status.error();
  store.is_shared_ = place.is_shared ? *place.is_shared : MayBeShared(store.fd());
  if (Status status = store.Lock(use); !status) return status.error();
  if (Status status = store.LoadSecret(place.key_file, use); !status) return status.error();
  return store;
}

Status Store::OpenDirectory(const Place& place, Use use) {
  path_ = place.directory + "/" + std::to_string(geteuid());
  if (use == Use::kWrite) {
    const mode_t mode = geteuid() == 0 ? 0755 : 0700;
    if (const int code = MakeDirectories(place.directory, mode); code != 0) {
      return Failure("mkdir", code);
    }
    if (mkdir(path_.c_str(), 0700) != 0 && errno != EEXIST) return Failure("mkdir", errno);
  }
  directory_.Reset(open(path_.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  if (!directory_.IsValid() && errno == ENOENT) {
    return Error{ENOENT, "nothing was captured yet: there is no " + path_};
  }
  if (!directory_.IsValid()) return Failure("open", errno);
  struct stat info {};
  if (fstat(directory_.Get(), &info) != 0) return Failure("stat", errno);
  // Restored code is run, so the store must be this user's.
  if (info.st_uid != geteuid()) {
    return Error{EPERM, path_ + " belongs to user " + std::to_string(info.st_uid) +
                            ", not to this one; remove it, or give --dir"};
  }
  if ((info.st_mode & 077) != 0) {
    return Error{EPERM,
                 path_ + " is open to others; if they have changed nothing: chmod 700 " + path_};
  }
  if (use == Use::kRead) return Ok();
  for (const char* name : {"objects", "staging", kBundles}) {
    if (mkdirat(fd(), name, 0700) != 0 && errno != EEXIST) return Failure("mkdir", errno);
  }
  return Ok();
}

Status Store::Lock(Use use) {
  const int flags = O_CLOEXEC | O_NOFOLLOW | (use == Use::kWrite ? O_RDWR | O_CREAT : O_RDONLY);
  lock_.Reset(openat(fd(), "lock", flags, 0600));
  if (!lock_.IsValid()) {
    if (use == Use::kRead && errno == ENOENT) {
      return Error{ENOENT, "nothing was captured yet in " + path_};
    }
    return Failure("open lock", errno);
  }
  const int code = LockWithin(lock_.Get(), LOCK_SH, patience_ms_);
  if (code == EWOULDBLOCK) {
    return Error{EBUSY, "another ppcctl keeps " + path_ + "/lock; wait for it, or end it"};
  }
  return code == 0 ? Ok() : Status(Failure("lock", code));
}

Status Store::LoadSecret(const std::string& file, Use use) {
  const std::string name = file.empty() ? "key" : file;  // an absolute path ignores fd()
  const std::string shown = file.empty() ? path_ + "/key" : file;
  const auto open_key = [&] {
    return UniqueFd(openat(file.empty() ? fd() : AT_FDCWD, name.c_str(),
                           O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
  };
  UniqueFd key = open_key();
  // A wrong path must not create another key.
  if (!key.IsValid() && errno == ENOENT && !file.empty()) {
    return Error{ENOKEY, "there is no key file " + shown +
                             "; give the one that bundles were captured with, or make one: "
                             "(umask 077; head -c 32 /dev/urandom > FILE)"};
  }
  if (!key.IsValid() && errno == ENOENT && use == Use::kWrite) {
    if (Status status = MakeKey(fd(), name); !status) {
      return Failure("key: " + status.error().message, status.error().code);
    }
    key = open_key();
  }
  if (!key.IsValid()) {
    return Error{errno, PosixError("key file " + shown, errno).message +
                            "; give the one that bundles were captured with: --key-file FILE"};
  }
  struct stat info {};
  if (fstat(key.Get(), &info) != 0 || !S_ISREG(info.st_mode) || info.st_uid != geteuid() ||
      (info.st_mode & 077) != 0) {
    return Error{EPERM, "key file " + shown +
                            " must be a file of this user's with mode 0600 (chown, chmod 600)"};
  }
  secret_.resize(kMaxSecret + 1);
  const ssize_t got = read(key.Get(), secret_.data(), secret_.size());
  secret_.resize(static_cast<size_t>(std::max<ssize_t>(got, 0)));
  if (secret_.size() < kMinSecret || secret_.size() > kMaxSecret) {
    return Error{EBADMSG, "key file " + shown + " must have 16 to 4096 bytes"};
  }
  return Ok();
}

Result<std::vector<BundleName>> Store::List() const {
  std::vector<BundleName> names;
  const Result<std::vector<std::string>> services = NamesAt(fd(), kBundles);
  if (!services) return Failure("list", services.error().code);
  for (const std::string& service : *services) {
    if (!control::CheckServiceId(service)) continue;
    const Result<std::vector<std::string>> keys = NamesAt(fd(), kBundles + ("/" + service));
    if (!keys) continue;
    for (const std::string& key : *keys) {
      if (IsKeyId(key)) names.push_back(BundleName{service, key});
    }
  }
  return names;
}

Result<Manifest> Store::Load(const BundleName& name) const {
  const std::string shown = "bundle " + name.Text();
  const Result<std::string> text = ReadFileAt(fd(), PathOf(name), kMaxManifestBytes);
  if (!text && text.error().code == ENOENT) {
    return Error{ENOENT, shown + ": there is none; `ppcctl artifact list` shows what there is"};
  }
  if (!text) return Failure(shown, text.error().code);
  Result<Manifest> manifest = Decode(*text, secret_);
  std::string problem = manifest ? "" : manifest.error().message;
  // A valid manifest under another name is as bad as a forged one.
  if (manifest &&
      (manifest->service_id != name.service_id || KeyIdOf(manifest->key) != name.key_id)) {
    problem = "it is another's under this name";
  }
  if (problem.empty()) return manifest;
  return Error{manifest ? EBADMSG : manifest.error().code,
               shown + ": " + problem + "; remove it: ppcctl artifact rm " + name.Text()};
}

Status Store::Save(const Manifest& manifest) const {
  const BundleName name{manifest.service_id, KeyIdOf(manifest.key)};
  const std::string text = Encode(manifest, secret_);
  if (text.size() > kMaxManifestBytes)
    return Error{EFBIG, "bundle " + name.Text() + ": too many files"};
  const std::string directory = kBundles + ("/" + name.service_id);
  if (mkdirat(fd(), directory.c_str(), 0700) != 0 && errno != EEXIST)
    return Failure("mkdir", errno);
  const std::string fresh = "staging/" + RandomName();
  if (Status status = WriteFileAt(fd(), fresh, text, 0600); !status) {
    return Failure("write", status.error().code);
  }
  if (renameat(fd(), fresh.c_str(), fd(), PathOf(name).c_str()) != 0) {
    const int code = errno;
    unlinkat(fd(), fresh.c_str(), 0);
    return Failure("rename", code);
  }
  for (const std::string& changed : {directory, std::string(kBundles)}) {
    if (const int code = SyncDirectoryAt(fd(), changed); code != 0) return Failure("fsync", code);
  }
  return Ok();
}

Result<std::string> Store::LoadSealed(const std::string& path, size_t max_bytes) const {
  Result<std::string> text = ReadFileAt(fd(), path, max_bytes + kSealBytes);
  if (!text) return text.error();
  const size_t end = text->size() < kSealBytes ? 0 : text->size() - kSealBytes;
  const std::string body = text->substr(0, end);
  if (body.empty() || text->substr(end) != SealOf(secret_, body)) {
    return Error{EKEYREJECTED,
                 "forged or damaged, or sealed with another key file: give that one, "
                 "or remove " +
                     path_ + "/" + path};
  }
  return body;
}

Status Store::SaveSealed(const std::string& path, const std::string& text) const {
  const std::string fresh = "staging/" + RandomName();
  if (Status status = WriteFileAt(fd(), fresh, text + SealOf(secret_, text), 0600); !status)
    return Failure("write", status.error().code);
  if (renameat(fd(), fresh.c_str(), fd(), path.c_str()) != 0) {
    const int code = errno;
    unlinkat(fd(), fresh.c_str(), 0);
    return Failure("rename", code);
  }
  const int code = SyncDirectoryAt(fd(), path.substr(0, path.rfind('/')));
  return code == 0 ? Ok() : Status(Failure("fsync", code));
}

Status Store::Remove(const BundleName& name) const {
  if (unlinkat(fd(), PathOf(name).c_str(), 0) != 0) {
    if (errno == ENOENT) {
      return Error{ENOENT, "bundle " + name.Text() + ": there is none"};
    }
    return Failure("remove " + name.Text(), errno);
  }
  const std::string directory = kBundles + ("/" + name.service_id);
  // Before its objects are removed.
  if (const int code = SyncDirectoryAt(fd(), directory); code != 0) return Failure("fsync", code);
  return Ok();
}

void Store::Renew(const BundleName& name) const {
  utimensat(fd(), PathOf(name).c_str(), nullptr, AT_SYMLINK_NOFOLLOW);
}

size_t Store::RemoveOldest(const BundleName& kept, size_t count) const {
  const Result<std::vector<BundleName>> names = List();
  if (!names) return 0;
  std::vector<std::pair<int64_t, BundleName>> others;
  for (const BundleName& name : *names) {
    struct stat info {};
    if (name.service_id != kept.service_id || name == kept) continue;
    if (fstatat(fd(), PathOf(name).c_str(), &info, AT_SYMLINK_NOFOLLOW) != 0) continue;
    others.emplace_back(ModifiedNs(info), name);
  }
  std::sort(others.begin(), others.end(),
            [](const auto& one, const auto& other) { return one.first > other.first; });
  size_t removed = 0;
  for (size_t i = count - 1; i < others.size(); ++i) removed += Remove(others[i].second) ? 1 : 0;
  return removed;
}

std::string Store::ObjectPath(const Entry& entry) {
  return "objects/" + entry.digest.substr(0, 2) + "/" + entry.digest +
         (entry.form == Form::kZstd ? ".zst" : ".raw");
}

bool Store::Claim(const std::string& object) const {
  struct stat info {};
  // On this machine our lock excludes sweeps.
  return is_shared_ ? utimensat(fd(), object.c_str(), nullptr, AT_SYMLINK_NOFOLLOW) == 0
                    : fstatat(fd(), object.c_str(), &info, AT_SYMLINK_NOFOLLOW) == 0;
}

UniqueFd Store::OpenObject(const Entry& entry) const {
  return UniqueFd(openat(fd(), ObjectPath(entry).c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW));
}

}  // namespace ppc::artifact
