// SPDX-License-Identifier: Apache-2.0
#include "daemon/supervisor/state_dir.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <system_error>

#include "daemon/base/digests.h"
#include "daemon/base/files.h"

namespace ppc::control {
namespace {

constexpr const char* kSuffix = ".json";
constexpr size_t kNameDigits = 16;
// More than the services of one mount, each of a request's size, can come to.
constexpr size_t kMaxStateBytes = 512 << 20;

Status MakeDirectories(const std::string& path) {
  for (size_t end = path.find('/', 1);; end = path.find('/', end + 1)) {
    const std::string part = path.substr(0, end);
    if (mkdir(part.c_str(), 0755) != 0 && errno != EEXIST) {
      return PosixError("mkdir " + part, errno);
    }
    if (end == std::string::npos) return Ok();
  }
}

// What lies in it names libraries to be loaded.
Status CheckOwn(const std::string& path) {
  struct stat info {};
  if (lstat(path.c_str(), &info) != 0) return PosixError(path, errno);
  if (S_ISDIR(info.st_mode) && info.st_uid == geteuid() &&
      (info.st_mode & (S_IWGRP | S_IWOTH)) == 0)
    return Ok();
  return Error{EPERM, path + " is no directory that uid " + std::to_string(geteuid()) +
                          " owns and no other user may write; give --state-dir another"};
}

// A user who may write to a directory above can put another in its place.
Status CheckAbove(const std::string& path) {
  std::error_code error;
  const std::filesystem::path real = std::filesystem::canonical(path, error);
  if (error) return Error{error.value(), path + ": " + error.message()};
  for (std::filesystem::path at = real.parent_path();; at = at.parent_path()) {
    struct stat info {};
    if (stat(at.c_str(), &info) != 0) return PosixError(at.string(), errno);
    const bool is_ours = info.st_uid == 0 || info.st_uid == geteuid();
    const bool is_others =
        (info.st_mode & (S_IWGRP | S_IWOTH)) != 0 && (info.st_mode & S_ISVTX) == 0;
    if (!is_ours || is_others) {
      return Error{EPERM, at.string() + ", above the state directory, may be written by others; " +
                              "give --state-dir another"};
    }
    if (at == at.parent_path()) return Ok();
  }
}

std::string HolderOf(const std::string& lock_path) {
  const Result<std::string> pid = ReadLine(lock_path);
  return pid && !pid->empty() ? *pid : "unknown";
}

}  // namespace

Result<StateDir> StateDir::Open(const std::string& path, bool is_private) {
  if (Status status = MakeDirectories(path + "/mounts"); !status) return status.error();
  for (const std::string& own : {path, path + "/mounts"}) {
    if (Status status = CheckOwn(own); !status) return status.error();
  }
  if (Status status = is_private ? Ok() : CheckAbove(path); !status) return status.error();
  const std::string lock_path = path + "/ppcd.lock";
  UniqueFd lock(open(lock_path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
  if (!lock.IsValid()) return PosixError("open " + lock_path, errno);
  if (flock(lock.Get(), LOCK_EX | LOCK_NB) != 0) {
    return Error{EBUSY, "another ppcd (pid " + HolderOf(lock_path) + ") holds " + lock_path +
                            "; stop it, or give --state-dir another"};
  }
  const std::string pid = std::to_string(getpid()) + "\n";
  if (ftruncate(lock.Get(), 0) == 0) (void)WriteAll(lock.Get(), pid.data(), pid.size());
  return StateDir(path, std::move(lock), is_private);
}

StateDir::~StateDir() {
  if (!is_private_ || !lock_.IsValid()) return;  // another's, or moved from
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

std::string StateDir::FileOf(const std::string& mount) const {
  return path_ + "/mounts/" + Sha256Hex(mount).substr(0, kNameDigits) + kSuffix;
}

Status StateDir::Save(const std::string& mount, const std::string& state) const {
  const std::string file = FileOf(mount);
  const std::string fresh = file + ".new";
  UniqueFd fd(open(fresh.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600));
  if (!fd.IsValid()) return PosixError("open " + fresh, errno);
  const std::string text = state + "\n";
  if (Status status = WriteAll(fd.Get(), text.data(), text.size()); !status) return status;
  if (rename(fresh.c_str(), file.c_str()) != 0) return PosixError("rename " + fresh, errno);
  return Ok();
}

void StateDir::Remove(const std::string& mount) const { unlink(FileOf(mount).c_str()); }

std::vector<Json> StateDir::LoadAll(std::vector<std::string>& problems) const {
  std::vector<Json> states;
  for (const std::string& name : EntriesOf(path_ + "/mounts")) {
    if (!name.ends_with(kSuffix)) continue;
    const std::string file = path_ + "/mounts/" + name;
    const Result<std::string> text = ReadFile(file, kMaxStateBytes);
    Result<Json> state = text ? ParseJsonObject(*text, file) : Result<Json>(text.error());
    if (state) {
      states.push_back(std::move(state).value());
      continue;
    }
    rename(file.c_str(), (file + ".bad").c_str());
    problems.push_back(state.error().message + "; set aside as " + file + ".bad");
  }
  return states;
}

}  // namespace ppc::control
