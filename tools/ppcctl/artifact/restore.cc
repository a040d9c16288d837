// SPDX-License-Identifier: Apache-2.0
#include "tools/ppcctl/artifact/restore.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <map>
#include <memory>
#include <system_error>

#include "daemon/base/clock.h"
#include "daemon/base/unique_fd.h"
#include "tools/ppcctl/artifact/files_at.h"
#include "tools/ppcctl/artifact/objects.h"
#include "tools/ppcctl/artifact/walk.h"

namespace ppc::artifact {
namespace {

constexpr mode_t kOwnMode = 0700;

enum class There {
  kAbsent,
  kDirectory,  // as the bundle has it
  kTorn,       // ours, and shorter than it was
  kOther,      // whatever else: it stays, and a directory's contents are not for us
};

There Look(int root, const Entry& entry) {
  struct stat info {};
  if (fstatat(root, entry.path.c_str(), &info, AT_SYMLINK_NOFOLLOW) != 0) {
    return errno == ENOENT ? There::kAbsent : There::kOther;
  }
  if (entry.kind == Kind::kDirectory && S_ISDIR(info.st_mode)) return There::kDirectory;
  // An engine's own file has not this very nanosecond.
  const bool is_torn = entry.kind == Kind::kFile && S_ISREG(info.st_mode) &&
                       ModifiedNs(info) == entry.mtime_ns &&
                       static_cast<uint64_t>(info.st_size) < entry.size;
  return is_torn ? There::kTorn : There::kOther;
}

timespec TimeOf(const Entry& entry) {
  constexpr auto kSecond = static_cast<int64_t>(kNsPerSec);
  int64_t seconds = entry.mtime_ns / kSecond;
  int64_t rest = entry.mtime_ns % kSecond;
  if (rest < 0) {
    rest += kSecond;
    --seconds;
  }
  return {static_cast<time_t>(seconds), static_cast<long>(rest)};
}

void SetTime(int directory, const std::string& path, const Entry& entry) {
  const timespec times[2] = {{0, UTIME_OMIT}, TimeOf(entry)};
  utimensat(directory, path.c_str(), times, AT_SYMLINK_NOFOLLOW);
}

// Where the file system has no such rename, a name is linked; a directory only where nothing is.
int RenameToAbsent(int from, int to, const Entry& entry) {
  const char* path = entry.path.c_str();
  if (renameat2(from, path, to, path, RENAME_NOREPLACE) == 0) return 0;
  if (errno != EINVAL && errno != ENOSYS) return errno;
  if (entry.kind != Kind::kDirectory) {
    if (linkat(from, path, to, path, 0) != 0) return errno;
    unlinkat(from, path, 0);
    return 0;
  }
  if (Look(to, entry) != There::kAbsent) return EEXIST;
  return renameat(from, path, to, path) == 0 ? 0 : errno;
}

std::string Parent(const std::string& path) {
  const size_t slash = path.rfind('/');
  return slash == std::string::npos ? "" : path.substr(0, slash);
}

// One root: what it lacks is laid out in a directory inside it, which vanishes with this.
class RootRestore {
 public:
  RootRestore(const Store& store, const Root& root) : store_(store), root_(root) {}
  ~RootRestore() {
    if (!staging_name_.empty()) RemoveTree(staging_name_);
  }
  RootRestore(const RootRestore&) = delete;
  RootRestore& operator=(const RootRestore&) = delete;

  Status Open() {
    if (const int code = MakeDirectories(root_.directory, kOwnMode); code != 0)
      return Failure(code);
    Result<UniqueFd> fd = OpenRoot(root_);
    if (!fd) return fd.error();
    fd_ = *std::move(fd);
    RemoveLeftovers();
    return Ok();
  }

  Status LayOut(const Entry& entry, const std::stop_token& stop, Restored* restored) {
    const std::string parent = Parent(entry.path);
    const auto known = directories_.find(parent);
    const There around = known == directories_.end() ? There::kDirectory : known->second;
    const There there = around == There::kDirectory ? Look(fd_.Get(), entry) : around;
    if (entry.kind == Kind::kDirectory) directories_[entry.path] = there;
    if (there == There::kOther) {
      if (entry.kind != Kind::kDirectory) ++restored->kept;
      return Ok();
    }
    if (there == There::kDirectory) return Ok();
    if (Status status = MakePlace(parent); !status) return status;
    switch (entry.kind) {
      case Kind::kDirectory:
        if (mkdirat(staging_.Get(), entry.path.c_str(), kOwnMode) != 0) return Failure(errno);
        break;
      case Kind::kLink:
        if (symlinkat(entry.target.c_str(), staging_.Get(), entry.path.c_str()) != 0) {
          return Failure(errno);
        }
        SetTime(staging_.Get(), entry.path, entry);
        break;
      case Kind::kFile:
        if (Status status = LayOutFile(entry, stop, restored); !status) return status;
        break;
    }
    absent_.push_back(&entry);
    torn_.push_back(there == There::kTorn);
    return Ok();
  }

  // Everything is there to be seen, a directory with all below it at once.
  Status Show(Restored* restored) {
    std::map<std::string, bool> is_moved;  // with all that is below
    std::vector<const Entry*> shown_directories;
    for (size_t i = 0; i < absent_.size(); ++i) {
      const Entry& entry = *absent_[i];
      const auto parent = is_moved.find(Parent(entry.path));
      int code = 0;
      if (parent == is_moved.end() || !parent->second) {
        code =
            torn_[i]
                ? (renameat(staging_.Get(), entry.path.c_str(), fd_.Get(), entry.path.c_str()) == 0
                       ? 0
                       : errno)
                : RenameToAbsent(staging_.Get(), fd_.Get(), entry);
      }
      // Somebody was faster, or is in the way: his stays.
      const bool is_lost = code == EEXIST || code == ENOTDIR || code == ENOENT || code == EISDIR;
      if (code != 0 && !is_lost) return Failure(code);
      if (entry.kind == Kind::kDirectory) {
        is_moved[entry.path] = code == 0;
        if (code == 0) shown_directories.push_back(&entry);
      } else if (code != 0) {
        ++restored->kept;
      }
      if (entry.kind == Kind::kFile && code == 0) {
        ++restored->files;
        restored->bytes += entry.size;
      }
    }
    // Their contents no longer change them; the innermost first.
    for (auto entry = shown_directories.rbegin(); entry != shown_directories.rend(); ++entry) {
      fchmodat(fd_.Get(), (*entry)->path.c_str(), (*entry)->mode, 0);
      SetTime(fd_.Get(), (*entry)->path, **entry);
    }
    return Ok();
  }

 private:
  Error Failure(int code) const {
    Error error = PosixError("restore to root " + root_.name + ", " + root_.directory, code);
    if (code == ENOSPC || code == EDQUOT) {
      error.message += "; make room there";
    } else {
      error.message += "; make it writable for this user, or give --root " + root_.name + "=DIR";
    }
    return error;
  }

  Status LayOutFile(const Entry& entry, const std::stop_token& stop, Restored* restored) {
    const UniqueFd fd(openat(staging_.Get(), entry.path.c_str(),
                             O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600));
    if (!fd.IsValid()) return Failure(errno);
    const Result<bool> is_cloned = ReadObject(store_, entry, fd.Get(), stop);
    if (!is_cloned) {
      const int code = is_cloned.error().code;
      const bool is_ours = code == ENOENT || code == EBADMSG || code == ECANCELED;
      return is_ours ? Status(is_cloned.error()) : Status(Failure(code));
    }
    if (*is_cloned) ++restored->cloned;
    const timespec times[2] = {{0, UTIME_OMIT}, TimeOf(entry)};
    if (fchmod(fd.Get(), entry.mode) != 0 || futimens(fd.Get(), times) != 0) return Failure(errno);
    return Ok();
  }

  // The directories that lead to what is missing, in the staging directory too.
  Status MakePlace(const std::string& parent) {
    if (!staging_.IsValid()) {
      std::string name = root_.directory + "/" + kRestoring + "XXXXXX";
      if (mkdtemp(name.data()) == nullptr) return Failure(errno);
      staging_name_ = name;
      staging_.Reset(open(name.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
      if (!staging_.IsValid() || flock(staging_.Get(), LOCK_EX | LOCK_NB) != 0) {
        return Failure(errno);
      }
    }
    if (parent == place_) return Ok();
    place_ = parent;
    for (size_t end = 0; end < parent.size();) {
      end = std::min(parent.find('/', end + 1), parent.size());
      if (mkdirat(staging_.Get(), parent.substr(0, end).c_str(), kOwnMode) != 0 &&
          errno != EEXIST) {
        return Failure(errno);
      }
    }
    return Ok();
  }

  static void RemoveTree(const std::string& path) {
    std::error_code ignored;
    std::filesystem::remove_all(path, ignored);
  }

  // Of restores that were killed: whoever is at work holds a lock.
  void RemoveLeftovers() const {
    const Result<std::vector<std::string>> names = NamesAt(fd_.Get(), ".");
    if (!names) return;
    for (const std::string& name : *names) {
      if (!name.starts_with(kRestoring)) continue;
      const UniqueFd left(
          openat(fd_.Get(), name.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
      if (left.IsValid() && flock(left.Get(), LOCK_EX | LOCK_NB) == 0) {
        RemoveTree(root_.directory + "/" + name);
      }
    }
  }

  const Store& store_;
  const Root root_;
  UniqueFd fd_;
  std::string staging_name_;
  UniqueFd staging_;
  std::string place_;  // made last
  std::map<std::string, There> directories_;
  std::vector<const Entry*> absent_;
  std::vector<bool> torn_;  // of each of them
};

Result<Root> RootOf(const Root& captured, const std::vector<Root>& roots) {
  const auto found = std::find_if(roots.begin(), roots.end(), [&captured](const Root& root) {
    return root.name == captured.name;
  });
  if (found != roots.end()) return *found;
  return Error{ENOENT, "the bundle has a root " + captured.name +
                           " that has no directory here; give --root " + captured.name +
                           "=DIR (it was " + captured.directory + ")"};
}

}  // namespace

Result<Restored> Restore(const Store& store, const Manifest& manifest,
                         const std::vector<Root>& roots, const std::stop_token& stop) {
  const std::string bundle = manifest.service_id + "/" + KeyIdOf(manifest.key);
  Restored restored;
  std::vector<std::unique_ptr<RootRestore>> restores;
  for (const Root& captured : manifest.roots) {
    const Result<Root> root = RootOf(captured, roots);
    if (!root) return root.error();
    restores.push_back(std::make_unique<RootRestore>(store, *root));
    if (Status status = restores.back()->Open(); !status) return status.error();
  }
  for (const Entry& entry : manifest.entries) {
    Status status = restores[entry.root]->LayOut(entry, stop, &restored);
    if (status) continue;
    Error error = status.error();
    error.message += "; nothing is restored";
    if (error.code == ENOENT || error.code == EBADMSG) {
      error.message += "; capture anew after: ppcctl artifact rm " + bundle;
    }
    return error;
  }
  for (const auto& restore : restores) {
    if (Status status = restore->Show(&restored); !status) return status.error();
  }
  return restored;
}

}  // namespace ppc::artifact
