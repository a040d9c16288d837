// SPDX-License-Identifier: Apache-2.0
//
// See template_files.h.
#include "policies/maio/template/template_files.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cinttypes>
#include <cstdio>
#include <cstring>
#include <ctime>
#include <memory>

namespace ppc::maio {
namespace {

constexpr const char* kTemporary = ".ppct.tmp.";
constexpr time_t kLeftoverSeconds = 24 * 3600;
constexpr int kNameTries = 16;

using Directory = std::unique_ptr<DIR, int (*)(DIR*)>;

int WriteAll(int fd, const std::vector<uint8_t>& bytes) {
  size_t at = 0;
  while (at < bytes.size()) {
    ssize_t n = write(fd, bytes.data() + at, bytes.size() - at);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return n < 0 ? errno : EIO;
    at += static_cast<size_t>(n);
  }
  return 0;
}

}  // namespace

int ReadTemplateFile(const std::string& path, std::vector<uint8_t>* bytes, std::string* error,
                     size_t most) {
  Descriptor fd(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  struct stat st = {};
  if (fd.get() < 0 || fstat(fd.get(), &st) != 0) return errno;
  if (!S_ISREG(st.st_mode) || static_cast<uint64_t>(st.st_size) > kMaxTemplateBytes) {
    *error = path + ": not a template (not a regular file, or too large)";
    return EINVAL;
  }
  bytes->resize(std::min<uint64_t>(static_cast<uint64_t>(st.st_size), most));
  size_t at = 0;
  while (at < bytes->size()) {
    ssize_t n = read(fd.get(), bytes->data() + at, bytes->size() - at);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return errno;
    if (n == 0) break;
    at += static_cast<size_t>(n);
  }
  bytes->resize(at);
  return 0;
}

// The store's other nodes may have this host's name, and this process's number too.
int ReserveTemporary(const std::string& path, std::string* name) {
  uint64_t random = 0;
  if (getrandom(&random, sizeof(random), 0) != sizeof(random)) return errno;
  char suffix[17];
  std::snprintf(suffix, sizeof(suffix), "%016" PRIx64, random);
  *name = path + ".tmp." + suffix;
  return 0;
}

int WriteTemporary(const std::string& path, const std::vector<uint8_t>& bytes, std::string* name) {
  int rc = EEXIST;
  for (int again = 0; rc == EEXIST && again < kNameTries; again++) {
    if (rc = ReserveTemporary(path, name); rc != 0) return rc;
    Descriptor fd(open(name->c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0644));
    rc = fd.get() < 0 ? errno : 0;
    if (rc != 0) continue;
    rc = WriteAll(fd.get(), bytes);
    if (rc == 0 && fsync(fd.get()) != 0) rc = errno;
    if (rc != 0) unlink(name->c_str());
  }
  return rc;
}

void SweepTemporaries(const std::string& dir) {
  Directory stream(opendir(dir.c_str()), closedir);
  while (const dirent* entry = stream ? readdir(stream.get()) : nullptr) {
    struct stat st = {};
    bool is_old = std::strstr(entry->d_name, kTemporary) != nullptr &&
                  fstatat(dirfd(stream.get()), entry->d_name, &st, AT_SYMLINK_NOFOLLOW) == 0 &&
                  S_ISREG(st.st_mode) && st.st_mtime < time(nullptr) - kLeftoverSeconds;
    if (is_old) unlinkat(dirfd(stream.get()), entry->d_name, 0);
  }
}

int EnsureDirectory(const std::string& path) {
  if (mkdir(path.c_str(), 0755) == 0 || errno == EEXIST) return 0;
  const int code = errno;
  struct stat st = {};
  // Of a read-only file system mkdir() says that, whether the directory is there or not.
  return stat(path.c_str(), &st) == 0 && S_ISDIR(st.st_mode) ? 0 : code;
}

int SyncDirectory(const std::string& path) {
  Descriptor fd(open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (fd.get() < 0) return errno;
  // Some file systems have nothing to sync in a directory.
  return fsync(fd.get()) == 0 || errno == EINVAL ? 0 : errno;
}

int ListDirectory(const std::string& path, std::vector<std::string>* names) {
  names->clear();
  Directory stream(opendir(path.c_str()), closedir);
  if (!stream) return errno;
  errno = 0;
  while (const dirent* entry = readdir(stream.get())) {
    const std::string name = entry->d_name;
    if (name != "." && name != "..") names->push_back(name);
  }
  return errno;
}

}  // namespace ppc::maio
