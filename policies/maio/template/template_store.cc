// SPDX-License-Identifier: Apache-2.0
//
// Templates as files: <store>/<first two characters>/<service ID>.ppct.  The
// store may be shared by several nodes (NFS): a template appears whole or not
// at all, and the last writer wins.
#include <dirent.h>
#include <fcntl.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cinttypes>
#include <cstdio>
#include <cstring>
#include <ctime>
#include <memory>

#include "policies/maio/template/template.h"

namespace ppc::maio {
namespace {

class Descriptor {
 public:
  explicit Descriptor(int fd) : fd_(fd) {}
  ~Descriptor() {
    if (fd_ >= 0) close(fd_);
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  int get() const { return fd_; }

 private:
  int fd_;
};

int Fail(int code, const std::string& what, std::string* error) {
  *error = what + ": " + std::strerror(code);
  return -code;
}

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

int EnsureDirectory(const std::string& path) {
  if (mkdir(path.c_str(), 0755) == 0 || errno == EEXIST) return 0;
  return errno;
}

constexpr const char* kTemporary = ".ppct.tmp.";
constexpr time_t kLeftoverSeconds = 24 * 3600;

// A new file beside `path`, created by nobody else: the store's other nodes may have this host's
// name, and this process's number too.  -1: errno.
int CreateTemporary(const std::string& path, std::string* name) {
  for (int again = 0; again < 16; again++) {
    uint64_t random = 0;
    if (getrandom(&random, sizeof(random), 0) != sizeof(random)) return -1;
    char suffix[17];
    std::snprintf(suffix, sizeof(suffix), "%016" PRIx64, random);
    *name = path + ".tmp." + suffix;
    int fd = open(name->c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0644);
    if (fd >= 0 || errno != EEXIST) return fd;
  }
  return -1;
}

// What a node left behind that died while it wrote.
void SweepLeftovers(const std::string& dir) {
  std::unique_ptr<DIR, int (*)(DIR*)> stream(opendir(dir.c_str()), closedir);
  while (const dirent* entry = stream ? readdir(stream.get()) : nullptr) {
    struct stat st = {};
    bool is_old = std::strstr(entry->d_name, kTemporary) != nullptr &&
                  fstatat(dirfd(stream.get()), entry->d_name, &st, AT_SYMLINK_NOFOLLOW) == 0 &&
                  S_ISREG(st.st_mode) && st.st_mtime < time(nullptr) - kLeftoverSeconds;
    if (is_old) unlinkat(dirfd(stream.get()), entry->d_name, 0);
  }
}

// 0 or errno.
int ReadAll(const std::string& path, std::vector<uint8_t>* bytes, std::string* error) {
  Descriptor fd(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  struct stat st = {};
  if (fd.get() < 0 || fstat(fd.get(), &st) != 0) return errno;
  if (!S_ISREG(st.st_mode) || static_cast<uint64_t>(st.st_size) > kMaxTemplateBytes) {
    *error = path + ": not a template (not a regular file, or too large)";
    return EINVAL;
  }
  bytes->resize(static_cast<size_t>(st.st_size));
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

}  // namespace

std::string TemplatePath(const std::string& store, const std::string& service_id) {
  if (!ValidServiceId(service_id)) return "";
  return store + "/" + service_id.substr(0, 2) + "/" + service_id + ".ppct";
}

int Store(const std::string& store, const Template& t, std::string* error) {
  std::string problem = Check(t);
  if (!problem.empty()) {
    *error = "template not stored: " + problem;
    return -EINVAL;
  }
  std::string path = TemplatePath(store, t.service_id);
  std::string dir = path.substr(0, path.rfind('/'));
  for (const std::string& d : {store, dir}) {
    if (int rc = EnsureDirectory(d); rc != 0) return Fail(rc, "cannot create " + d, error);
  }
  SweepLeftovers(dir);
  std::string tmp;
  int rc = 0;
  {
    Descriptor fd(CreateTemporary(path, &tmp));
    if (fd.get() < 0) return Fail(errno, "cannot write " + tmp, error);
    rc = WriteAll(fd.get(), Encode(t));
    if (rc == 0 && fsync(fd.get()) != 0) rc = errno;
  }
  if (rc == 0 && rename(tmp.c_str(), path.c_str()) != 0) rc = errno;
  if (rc != 0) {
    unlink(tmp.c_str());
    return Fail(rc, "cannot write " + path, error);
  }
  Descriptor dir_fd(open(dir.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  // Some file systems have nothing to sync in a directory.
  bool synced = dir_fd.get() >= 0 && (fsync(dir_fd.get()) == 0 || errno == EINVAL);
  if (!synced) return Fail(errno, "cannot sync " + dir, error);
  return 0;
}

int Load(const std::string& path, Template* out, std::string* error) {
  std::vector<uint8_t> bytes;
  error->clear();
  int rc = ReadAll(path, &bytes, error);
  // On NFS a file that another node has just replaced: its successor is there.
  for (int again = 0; rc == ESTALE && again < 3; again++) rc = ReadAll(path, &bytes, error);
  if (rc != 0) return error->empty() ? Fail(rc, path, error) : -rc;
  std::string problem;
  std::optional<Template> t = Decode(bytes, &problem);
  if (!t) {
    *error = path + ": unusable template: " + problem + "; remove it and it is recorded anew";
    return -EINVAL;
  }
  *out = std::move(*t);
  return 0;
}

}  // namespace ppc::maio
