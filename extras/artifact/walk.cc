// SPDX-License-Identifier: Apache-2.0
#include "extras/artifact/walk.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <climits>
#include <cstring>
#include <vector>

#include "extras/artifact/files_at.h"

namespace ppc::artifact {
namespace {

// Each level keeps a directory open.
constexpr int kMaxDepth = 100;

class Walker {
 public:
  Walker(const std::set<FileId>& others, LeftOut* left_out, const Visitor& visit)
      : others_(others), left_out_(left_out), visit_(visit) {}

  Status Enter(int directory, const std::string& prefix, int depth) {
    const Result<std::vector<std::string>> names = NamesAt(directory, ".");
    if (!names) {
      left_out_->Add(prefix.empty() ? "." : prefix, std::strerror(names.error().code));
      return Ok();
    }
    for (const std::string& name : *names) {
      if (depth == 0 && name.starts_with(kRestoring)) continue;
      struct stat info {};
      // Removed meanwhile: ignored.
      if (fstatat(directory, name.c_str(), &info, AT_SYMLINK_NOFOLLOW) != 0) continue;
      Entry entry;
      entry.path = prefix + name;
      entry.mode = info.st_mode & 0777;
      entry.mtime_ns = ModifiedNs(info);
      Status status = Ok();
      std::string problem = OwnProblem(info);
      if (problem.empty()) problem = PathProblem(entry.path);
      if (!problem.empty()) {
        left_out_->Add(entry.path, problem);
      } else if (S_ISDIR(info.st_mode)) {
        status = Directory(directory, name, std::move(entry), depth);
      } else if (S_ISLNK(info.st_mode)) {
        status = Link(directory, name, std::move(entry));
      } else if (S_ISREG(info.st_mode)) {
        status = File(directory, name, std::move(entry));
      } else {
        left_out_->Add(entry.path, "it is neither a file, a directory nor a link");
      }
      if (!status) return status;
    }
    return Ok();
  }

 private:
  Status Directory(int directory, const std::string& name, Entry&& entry, int depth) {
    const std::string path = entry.path;
    if (depth >= kMaxDepth) {
      left_out_->Add(path, "it is nested too deeply");
      return Ok();
    }
    const UniqueFd fd(
        openat(directory, name.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
    struct stat info {};
    if (!fd.IsValid() || fstat(fd.Get(), &info) != 0) {
      left_out_->Add(path, std::strerror(errno));
      return Ok();
    }
    if (others_.contains({info.st_dev, info.st_ino})) return Ok();
    // The name may lead to another file now.
    if (const std::string problem = OwnProblem(info); !problem.empty()) {
      left_out_->Add(path, problem);
      return Ok();
    }
    entry.kind = Kind::kDirectory;
    entry.mode = info.st_mode & 0777;
    entry.mtime_ns = ModifiedNs(info);
    if (Status status = visit_(std::move(entry), UniqueFd()); !status) return status;
    return Enter(fd.Get(), path + "/", depth + 1);
  }

  Status Link(int directory, const std::string& name, Entry&& entry) {
    std::array<char, PATH_MAX> target{};
    const ssize_t bytes = readlinkat(directory, name.c_str(), target.data(), target.size());
    if (bytes < 0) return Ok();
    entry.kind = Kind::kLink;
    entry.target.assign(target.data(), static_cast<size_t>(bytes));
    if (const std::string problem = LinkProblem(entry.path, entry.target); !problem.empty()) {
      left_out_->Add(entry.path, problem);
      return Ok();
    }
    return visit_(std::move(entry), UniqueFd());
  }

  Status File(int directory, const std::string& name, Entry&& entry) {
    const UniqueFd fd(
        openat(directory, name.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
    if (!fd.IsValid()) {
      if (errno != ENOENT) left_out_->Add(entry.path, std::strerror(errno));
      return Ok();
    }
    struct stat info {};
    if (fstat(fd.Get(), &info) != 0) return PosixError("stat " + entry.path, errno);
    std::string problem = OwnProblem(info);
    if (!S_ISREG(info.st_mode)) problem = "it was a file";
    if (!problem.empty()) {
      left_out_->Add(entry.path, problem);
      return Ok();
    }
    return visit_(std::move(entry), fd);
  }

  const std::set<FileId>& others_;
  LeftOut* const left_out_;
  const Visitor& visit_;
};

// A root may be a link if the link is the user's own: in /tmp any user can make one.
UniqueFd Follow(const std::string& path) {
  const UniqueFd link(open(path.c_str(), O_PATH | O_NOFOLLOW | O_CLOEXEC));
  struct stat info {};
  std::array<char, PATH_MAX> target{};
  if (!link.IsValid() || fstat(link.Get(), &info) != 0) return UniqueFd();
  if (!S_ISLNK(info.st_mode) || info.st_uid != geteuid()) {
    errno = S_ISLNK(info.st_mode) ? EPERM : ENOTDIR;
    return UniqueFd();
  }
  const ssize_t bytes = readlinkat(link.Get(), "", target.data(), target.size());
  if (bytes < 0) return UniqueFd();
  std::string place(target.data(), static_cast<size_t>(bytes));
  if (!place.starts_with('/')) place = path.substr(0, path.rfind('/') + 1) + place;
  return UniqueFd(open(place.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
}

}  // namespace

std::string OwnProblem(const struct stat& info) {
  if (info.st_uid != geteuid()) return "it belongs to user " + std::to_string(info.st_uid);
  // A link's mode bits allow writing, but nothing can write to a link.
  if (!S_ISLNK(info.st_mode) && (info.st_mode & (S_IWGRP | S_IWOTH)) != 0) {
    return "others may write to it; chmod go-w";
  }
  return "";
}

Result<UniqueFd> OpenRoot(const Root& root) {
  const std::string shown = "root " + root.name + ", " + root.directory;
  UniqueFd fd(open(root.directory.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  if (!fd.IsValid() && (errno == ENOTDIR || errno == ELOOP)) fd = Follow(root.directory);
  if (!fd.IsValid() && errno == EPERM) {
    return Error{EPERM, shown + ": it is another user's link; give --root " + root.name + "=DIR"};
  }
  if (!fd.IsValid()) return PosixError(shown, errno);
  struct stat info {};
  if (fstat(fd.Get(), &info) != 0) return PosixError(shown, errno);
  if (const std::string problem = OwnProblem(info); !problem.empty()) {
    const char* const remedy = info.st_uid != geteuid() ? "; give --root " : ", or give --root ";
    return Error{EPERM, shown + ": " + problem + remedy + root.name + "=DIR"};
  }
  return fd;
}

Status Walk(const UniqueFd& root, const std::set<FileId>& others, LeftOut* left_out,
            const Visitor& visit) {
  return Walker(others, left_out, visit).Enter(root.Get(), "", 0);
}

}  // namespace ppc::artifact
