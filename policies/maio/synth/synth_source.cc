// SPDX-License-Identifier: Apache-2.0
//
// A directory of this machine as a source of model files.
#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <climits>
#include <cstdlib>
#include <memory>

#include "policies/maio/synth/synth.h"

namespace ppc::maio {
namespace {

struct FreeText {
  void operator()(char* text) const { std::free(text); }
};
struct CloseDir {
  void operator()(DIR* dir) const { closedir(dir); }
};

}  // namespace

DirectorySource::DirectorySource(std::string root) : root_(std::move(root)) {
  const std::unique_ptr<char, FreeText> real(realpath(root_.c_str(), nullptr));
  if (real) root_ = real.get();
  while (root_.size() > 1 && root_.back() == '/') root_.pop_back();
}

int DirectorySource::Resolve(const std::string& path, std::string* real) const {
  const std::string full = path.empty() ? root_ : root_ + "/" + path;
  const std::unique_ptr<char, FreeText> found(realpath(full.c_str(), nullptr));
  if (!found) return -errno;
  *real = found.get();
  std::string prefix = root_ == "/" ? root_ : root_ + "/";
  return *real == root_ || real->starts_with(prefix) ? 0 : -ELOOP;
}

int DirectorySource::Stat(const std::string& path, Info* out) {
  std::string real;
  if (int rc = Resolve(path, &real); rc != 0) return rc;
  struct stat st = {};
  if (stat(real.c_str(), &st) != 0) return -errno;
  if (!S_ISREG(st.st_mode)) return S_ISDIR(st.st_mode) ? -EISDIR : -EINVAL;
  out->path = real.substr(root_ == "/" ? 1 : root_.size() + 1);
  out->size = static_cast<uint64_t>(st.st_size);
  out->mtime_ns = int64_t{st.st_mtim.tv_sec} * 1'000'000'000 + st.st_mtim.tv_nsec;
  out->number = st.st_ino;
  return 0;
}

int64_t DirectorySource::Read(const std::string& path, uint64_t offset, void* out, size_t bytes) {
  std::string real;
  if (int rc = Resolve(path, &real); rc != 0) return rc;
  // Nonblocking: whoever replaces the file by a pipe must not stop us.
  int fd = open(real.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
  if (fd < 0) return -errno;
  size_t done = 0;
  int rc = 0;
  while (done < bytes) {
    ssize_t n =
        pread(fd, static_cast<char*>(out) + done, bytes - done, static_cast<off_t>(offset + done));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) rc = -errno;
    if (n <= 0) break;
    done += static_cast<size_t>(n);
  }
  close(fd);
  return rc != 0 ? rc : static_cast<int64_t>(done);
}

int DirectorySource::List(const std::string& path, std::vector<std::string>* names) {
  std::string real;
  if (int rc = Resolve(path, &real); rc != 0) return rc;
  const std::unique_ptr<DIR, CloseDir> dir(opendir(real.c_str()));
  if (!dir) return -errno;
  names->clear();
  while (const dirent* entry = readdir(dir.get())) {
    std::string name = entry->d_name;
    if (name != "." && name != "..") names->push_back(std::move(name));
  }
  return 0;
}

}  // namespace ppc::maio
