// SPDX-License-Identifier: Apache-2.0
#include "extras/artifact/capture.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <optional>
#include <unordered_map>

#include "daemon/base/clock.h"
#include "extras/artifact/files_at.h"

namespace ppc::artifact {
namespace {

// A clock of this resolution gives two changes the same time.
constexpr int64_t kTickNs = 2 * static_cast<int64_t>(kNsPerSec);
constexpr int kMaxReads = 3;
// Per service: each driver, package and option has a key of its own, and old keys rarely return.
constexpr size_t kBundlesKept = 8;

int64_t NowNs() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::system_clock::now().time_since_epoch())
      .count();
}

bool IsSame(const struct stat& one, const struct stat& other) {
  return one.st_size == other.st_size && ModifiedNs(one) == ModifiedNs(other) &&
         one.st_ctim.tv_sec == other.st_ctim.tv_sec && one.st_ctim.tv_nsec == other.st_ctim.tv_nsec;
}

// The files of an earlier bundle, by root and path.
class EarlierFiles {
 public:
  explicit EarlierFiles(const Manifest* manifest) : manifest_(manifest) {
    if (manifest == nullptr) return;
    for (const Entry& entry : manifest->entries) {
      if (entry.kind == Kind::kFile) {
        files_.emplace(manifest->roots[entry.root].name + "/" + entry.path, &entry);
      }
    }
  }
  // The entry of a file that has not changed since the last capture; nullptr: read the file.
  const Entry* Find(const std::string& root, const std::string& path,
                    const struct stat& now) const {
    const auto found = files_.find(root + "/" + path);
    if (found == files_.end()) return nullptr;
    const Entry* entry = found->second;
    const bool is_same = entry->size == static_cast<uint64_t>(now.st_size) &&
                         entry->mtime_ns == ModifiedNs(now) &&
                         entry->mtime_ns < manifest_->captured_ns - kTickNs;
    return is_same ? entry : nullptr;
  }

 private:
  const Manifest* manifest_;
  std::unordered_map<std::string, const Entry*> files_;
};

class Capturer {
 public:
  Capturer(const Store& store, const CaptureRequest& request, const Manifest* before)
      : store_(store), request_(request), earlier_(before), objects_(store, request.compress) {
    manifest_.service_id = request.service_id;
    manifest_.key = request.key;
    manifest_.captured_ns = NowNs();
  }

  Status Take(const std::vector<Root>& roots) {
    std::vector<UniqueFd> opened;
    std::set<FileId> ids;
    struct stat own {};
    // If a root contains the store, the store is not captured.
    if (fstat(store_.fd(), &own) == 0) ids.emplace(own.st_dev, own.st_ino);
    for (const Root& root : roots) {
      Result<UniqueFd> fd = OpenRoot(root);
      struct stat info {};
      if (!fd && fd.error().code == ENOENT) continue;
      if (!fd) return fd.error();
      // If two names lead to one directory, the first counts.
      if (fstat(fd->Get(), &info) != 0 || !ids.emplace(info.st_dev, info.st_ino).second) continue;
      manifest_.roots.push_back(root);
      opened.push_back(*std::move(fd));
    }
    for (uint32_t index = 0; index < opened.size(); ++index) {
      const Visitor visit = [&](Entry&& entry, const UniqueFd& fd) {
        entry.root = index;
        return Visit(std::move(entry), fd);
      };
      if (Status status = Walk(opened[index], ids, &captured_.left_out, visit); !status) {
        return status;
      }
    }
    return Ok();
  }

  Status Commit() {
    captured_.stored_bytes = objects_.stored_bytes();
    return objects_.Commit();
  }

  bool has_objects() const { return !objects_.is_empty(); }
  const Manifest& manifest() const { return manifest_; }
  Captured& captured() { return captured_; }

 private:
  Status Visit(Entry&& entry, const UniqueFd& fd) {
    if (request_.stop.stop_requested()) return Error{ECANCELED, "stopped before all was captured"};
    if (entry.kind == Kind::kFile) {
      const Result<bool> is_whole = ReadFileOf(fd, &entry);
      if (!is_whole) return is_whole.error();
      if (!*is_whole) {
        captured_.left_out.Add(entry.path, "it was being written");
        return Ok();
      }
      ++captured_.files;
      captured_.bytes += entry.size;
    }
    if (manifest_.entries.size() >= kMaxEntries) {
      return Error{EFBIG, "the roots hold more than " + std::to_string(kMaxEntries) +
                              " files; leave one out: --root NAME="};
    }
    manifest_.entries.push_back(std::move(entry));
    return Ok();
  }

  Status CheckSize(uint64_t more) const {
    if (more <= request_.max_bytes && captured_.bytes <= request_.max_bytes - more) return Ok();
    return Error{EFBIG,
                 "the roots hold more than --limit; leave one out (--root NAME=), or raise it"};
  }

  // False: the file keeps changing.
  Result<bool> ReadFileOf(const UniqueFd& fd, Entry* entry) {
    for (int reading = 0; reading < kMaxReads; ++reading) {
      struct stat before {};
      struct stat after {};
      if (fstat(fd.Get(), &before) != 0) return PosixError("stat " + entry->path, errno);
      if (Status status = CheckSize(static_cast<uint64_t>(before.st_size)); !status) {
        return status.error();
      }
      entry->mode = before.st_mode & 0777;
      entry->mtime_ns = ModifiedNs(before);
      if (const Entry* known =
              earlier_.Find(manifest_.roots[entry->root].name, entry->path, before);
          known != nullptr && store_.Claim(Store::ObjectPath(*known))) {
        entry->size = known->size;
        entry->digest = known->digest;
        entry->form = known->form;
        ++captured_.unread;
        return true;
      }
      const Status status =
          objects_.Add(fd.Get(), static_cast<uint64_t>(before.st_size), request_.stop, entry);
      if (!status && status.error().code == ESTALE) continue;
      if (!status) return status.error();
      if (fstat(fd.Get(), &after) == 0 && IsSame(before, after) &&
          entry->size == static_cast<uint64_t>(after.st_size)) {
        return true;
      }
    }
    return false;
  }

  const Store& store_;
  const CaptureRequest& request_;
  const EarlierFiles earlier_;
  StagedObjects objects_;
  Manifest manifest_;
  Captured captured_;
};

// An empty file is a lock that each start opens anew, and directories change all the time: a new
// time alone is no change.
bool IsSameEntry(const Entry& one, const Entry& other) {
  const bool has_contents = one.kind != Kind::kDirectory && one.size != 0;
  if (has_contents || one.mtime_ns == other.mtime_ns) return one == other;
  Entry later = other;
  later.mtime_ns = one.mtime_ns;
  return one == later;
}

bool IsSame(const Manifest& one, const Manifest& other) {
  return std::equal(one.entries.begin(), one.entries.end(), other.entries.begin(),
                    other.entries.end(), IsSameEntry) &&
         std::equal(one.roots.begin(), one.roots.end(), other.roots.begin(), other.roots.end(),
                    [](const Root& a, const Root& b) { return a.name == b.name; });
}

}  // namespace

Result<Captured> Capture(Store& store, const CaptureRequest& request) {
  const BundleName name{request.service_id, KeyIdOf(request.key)};
  // Captures killed at each start would leave more and more files.
  if (store.HasLeftovers()) {
    if (const Result<size_t> swept = store.Sweep(); !swept && swept.error().code == ENOLCK) {
      return swept.error();
    }
  }
  const Result<Manifest> before = store.Load(name);
  // A bundle sealed with another key file, or written by a newer ppcctl, is not replaced.
  if (!before && before.error().code != ENOENT) return before.error();
  Capturer capturer(store, request, before ? &*before : nullptr);
  if (Status status = capturer.Take(request.roots); !status) return status.error();
  Captured& captured = capturer.captured();
  captured.name = name;
  if (captured.files == 0) {
    return Error{ENODATA, "nothing to capture: the roots hold no files (of this user's)"};
  }
  // Restores an object that was lost.
  captured.is_unchanged = before && !capturer.has_objects() && IsSame(*before, capturer.manifest());
  if (captured.is_unchanged) {
    store.Renew(name);
    return captured;
  }
  Status status = capturer.Commit();
  if (status) status = store.Save(capturer.manifest());
  if (!status) {
    // Objects that have names already would fill the disk until a later capture.  Not swept after
    // EIO: it is unknown which lists are on disk.
    if (status.error().code != EIO) (void)store.Sweep();
    return status.error();
  }
  // Removes objects that only older bundles had.  If another capture is running, it does this
  // later.
  if (store.RemoveOldest(name, kBundlesKept) > 0 || before) (void)store.Sweep();
  return captured;
}

}  // namespace ppc::artifact
