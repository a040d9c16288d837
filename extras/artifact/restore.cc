// SPDX-License-Identifier: Apache-2.0
#include "extras/artifact/restore.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <map>
#include <memory>

#include "daemon/base/clock.h"
#include "daemon/base/unique_fd.h"
#include "extras/artifact/files_at.h"
#include "extras/artifact/objects.h"
#include "extras/artifact/walk.h"

namespace ppc::artifact {
namespace {

constexpr mode_t kOwnMode = 0700;
constexpr mode_t kRestoredModes = 0755;

enum class TargetState {
  kAbsent,
  kDirectory,  // as in the bundle
  kTorn,       // written by an earlier restore, and too short
  kOther,      // anything else: it stays, and a directory's contents are not touched
};

// `directory`: the entry's directory, or the staging directory.
TargetState StateOf(int directory, const std::string& name, const Entry& entry) {
  struct stat info {};
  if (fstatat(directory, name.c_str(), &info, AT_SYMLINK_NOFOLLOW) != 0) {
    return errno == ENOENT ? TargetState::kAbsent : TargetState::kOther;
  }
  if (entry.kind == Kind::kDirectory && S_ISDIR(info.st_mode)) return TargetState::kDirectory;
  // An engine's own file would not have exactly this nanosecond.
  const bool is_torn = entry.kind == Kind::kFile && S_ISREG(info.st_mode) &&
                       ModifiedNs(info) == entry.mtime_ns &&
                       static_cast<uint64_t>(info.st_size) < entry.size;
  return is_torn ? TargetState::kTorn : TargetState::kOther;
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

std::string Parent(const std::string& path) {
  const size_t slash = path.rfind('/');
  return slash == std::string::npos ? "" : path.substr(0, slash);
}

std::string NameOf(const std::string& path) { return path.substr(path.rfind('/') + 1); }

// If the file system lacks RENAME_NOREPLACE, links the name; a directory is moved only to a free
// name.
int RenameToAbsent(int from, int to, const Entry& entry) {
  const char* path = entry.path.c_str();
  const std::string name = NameOf(entry.path);
  if (renameat2(from, path, to, name.c_str(), RENAME_NOREPLACE) == 0) return 0;
  if (errno != EINVAL && errno != ENOSYS) return errno;
  if (entry.kind != Kind::kDirectory) {
    if (linkat(from, path, to, name.c_str(), 0) != 0) return errno;
    unlinkat(from, path, 0);
    return 0;
  }
  if (StateOf(to, name, entry) != TargetState::kAbsent) return EEXIST;
  return renameat(from, path, to, name.c_str()) == 0 ? 0 : errno;
}

// Opens a directory below a root, name by name and following no link; invalid with errno set,
// EPERM: one on the way is not this user's alone.  (Many containers hide openat2(2).)
UniqueFd OpenBelow(int root, const std::string& path, int flags) {
  UniqueFd fd(openat(root, ".", flags | O_DIRECTORY | O_CLOEXEC));
  for (size_t begin = 0; fd.IsValid() && begin < path.size();) {
    const size_t end = std::min(path.find('/', begin), path.size());
    const std::string name = path.substr(begin, end - begin);
    fd.Reset(openat(fd.Get(), name.c_str(), flags | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
    struct stat info {};
    if (fd.IsValid() && (fstat(fd.Get(), &info) != 0 || !OwnProblem(info).empty())) {
      fd.Reset();
      errno = EPERM;
    }
    begin = end + 1;
  }
  return fd;
}

// Restores one root: missing files are prepared in a directory inside it, which is removed at the
// end.
class RootRestore {
 public:
  RootRestore(const Store& store, const Root& root) : store_(store), root_(root) {}
  ~RootRestore() {
    if (!staging_name_.empty()) RemoveTreeAt(fd_.Get(), staging_name_);
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

  Status Stage(const Entry& entry, const std::stop_token& stop, Restored* restored) {
    const std::string parent = Parent(entry.path);
    const auto known = directories_.find(parent);
    const TargetState parent_state =
        known == directories_.end() ? TargetState::kDirectory : known->second;
    TargetState state = parent_state;
    if (parent_state == TargetState::kDirectory) {
      const Result<TargetState> looked = StateBelow(parent, entry);
      if (!looked) return looked.error();
      state = *looked;
    }
    if (entry.kind == Kind::kDirectory) directories_[entry.path] = state;
    if (state == TargetState::kOther) {
      if (entry.kind != Kind::kDirectory) ++restored->kept;
      return Ok();
    }
    if (state == TargetState::kDirectory) return Ok();
    if (Status status = MakeStagingDirectories(parent); !status) return status;
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
        if (Status status = StageFile(entry, stop, restored); !status) return status;
        break;
    }
    absent_.push_back(&entry);
    torn_.push_back(state == TargetState::kTorn);
    return Ok();
  }

  // Moves everything into place, a directory with all below it at once.
  Status MoveIntoPlace(Restored* restored) {
    opened_.Reset();                       // a path may lead to another directory now
    std::map<std::string, bool> is_moved;  // including everything below
    std::vector<const Entry*> moved_directories;
    for (size_t i = 0; i < absent_.size(); ++i) {
      const Entry& entry = *absent_[i];
      const auto parent = is_moved.find(Parent(entry.path));
      int code = 0;
      if (parent == is_moved.end() || !parent->second) code = Move(entry, torn_[i]);
      if (code == ENOENT && StateOf(staging_.Get(), entry.path, entry) == TargetState::kAbsent) {
        return Error{EIO, "restore to root " + root_.name + ", " + root_.directory + ": '" +
                              entry.path + "' was removed before it was in place; restore again"};
      }
      // Another process created a file there first: that file stays.
      const bool is_lost = code == EEXIST || code == ENOTDIR || code == ENOENT || code == EISDIR;
      if (code != 0 && !is_lost) return Failure(code);
      if (entry.kind == Kind::kDirectory) {
        is_moved[entry.path] = code == 0;
        if (code == 0) moved_directories.push_back(&entry);
      } else if (code != 0) {
        ++restored->kept;
      }
      if (entry.kind == Kind::kFile && code == 0) {
        ++restored->files;
        restored->bytes += entry.size;
      }
    }
    // Sets the directories' times after their contents, innermost first.
    for (auto entry = moved_directories.rbegin(); entry != moved_directories.rend(); ++entry) {
      const UniqueFd fd = OpenBelow(fd_.Get(), (*entry)->path, O_RDONLY);
      if (!fd.IsValid()) continue;
      const timespec times[2] = {{0, UTIME_OMIT}, TimeOf(**entry)};
      fchmod(fd.Get(), (*entry)->mode & kRestoredModes);
      futimens(fd.Get(), times);
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

  // The directory of a path; -1 with errno as in OpenBelow().
  int Opened(const std::string& path) {
    if (!opened_.IsValid() || path != opened_path_) {
      opened_ = OpenBelow(fd_.Get(), path, O_PATH);
      opened_path_ = path;
    }
    return opened_.Get();
  }

  Result<TargetState> StateBelow(const std::string& parent, const Entry& entry) {
    const int directory = Opened(parent);
    if (directory >= 0) return StateOf(directory, NameOf(entry.path), entry);
    if (errno == EPERM) {
      return Error{EPERM, "root " + root_.name + ", " + root_.directory + "/" + parent +
                              ": it is another user's, or others may write to it; chmod go-w, or " +
                              "give --root " + root_.name + "=DIR"};
    }
    return errno == ENOENT ? TargetState::kAbsent : TargetState::kOther;
  }

  // Moves an entry to its place; 0 or errno.
  int Move(const Entry& entry, bool is_torn) {
    const int directory = Opened(Parent(entry.path));
    if (directory < 0) return errno == EPERM || errno == ELOOP ? EEXIST : errno;
    if (!is_torn) return RenameToAbsent(staging_.Get(), directory, entry);
    const std::string name = NameOf(entry.path);
    return renameat(staging_.Get(), entry.path.c_str(), directory, name.c_str()) == 0 ? 0 : errno;
  }

  Status StageFile(const Entry& entry, const std::stop_token& stop, Restored* restored) {
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
    if (fchmod(fd.Get(), entry.mode & kRestoredModes) != 0 || futimens(fd.Get(), times) != 0)
      return Failure(errno);
    return Ok();
  }

  // Makes the directories that lead to missing entries, in the staging directory too.
  Status MakeStagingDirectories(const std::string& parent) {
    if (!staging_.IsValid()) {
      const std::string name = kRestoring + RandomName();
      if (mkdirat(fd_.Get(), name.c_str(), kOwnMode) != 0) return Failure(errno);
      staging_name_ = name;
      staging_.Reset(
          openat(fd_.Get(), name.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
      if (!staging_.IsValid() || flock(staging_.Get(), LOCK_EX | LOCK_NB) != 0) {
        return Failure(errno);
      }
    }
    if (parent == staged_parent_) return Ok();
    staged_parent_ = parent;
    for (size_t end = 0; end < parent.size();) {
      end = std::min(parent.find('/', end + 1), parent.size());
      if (mkdirat(staging_.Get(), parent.substr(0, end).c_str(), kOwnMode) != 0 &&
          errno != EEXIST) {
        return Failure(errno);
      }
    }
    return Ok();
  }

  // Removes what killed restores left: a running restore holds a lock, or on another machine has
  // begun lately.
  void RemoveLeftovers() const {
    constexpr int64_t kLeftAgeS = 3600;
    const bool is_shared = MayBeShared(fd_.Get());
    const Result<std::vector<std::string>> names = NamesAt(fd_.Get(), ".");
    if (!names) return;
    for (const std::string& name : *names) {
      if (!name.starts_with(kRestoring)) continue;
      if (is_shared && !IsOlderThan(fd_.Get(), name, kLeftAgeS)) continue;
      const UniqueFd left(
          openat(fd_.Get(), name.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
      if (left.IsValid() && flock(left.Get(), LOCK_EX | LOCK_NB) == 0) {
        RemoveTreeAt(fd_.Get(), name);
      }
    }
  }

  const Store& store_;
  const Root root_;
  UniqueFd fd_;
  std::string staging_name_;
  UniqueFd staging_;
  std::string staged_parent_;  // made last
  std::string opened_path_;
  UniqueFd opened_;
  std::map<std::string, TargetState> directories_;
  std::vector<const Entry*> absent_;
  std::vector<bool> torn_;  // by root
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
    Status status = restores[entry.root]->Stage(entry, stop, &restored);
    if (status) continue;
    Error error = status.error();
    error.message += "; nothing is restored";
    if (error.code == ENOENT || error.code == EBADMSG) {
      error.message += "; capture anew after: ppcctl artifact rm " + bundle;
    }
    return error;
  }
  for (const auto& restore : restores) {
    if (Status status = restore->MoveIntoPlace(&restored); !status) return status.error();
  }
  return restored;
}

}  // namespace ppc::artifact
