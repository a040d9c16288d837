// SPDX-License-Identifier: Apache-2.0
#include "daemon/base/files.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <climits>

#include "daemon/base/log.h"

namespace ppc {

Result<std::string> ReadFile(const std::string& path, size_t max_bytes) {
  UniqueFd fd(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!fd.IsValid()) return PosixError("open " + path, errno);
  std::string out;
  char buffer[4096];
  while (out.size() < max_bytes) {
    const ssize_t got = read(fd.Get(), buffer, sizeof(buffer));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return PosixError("read " + path, errno);
    if (got == 0) break;
    out.append(buffer, static_cast<size_t>(got));
  }
  if (out.size() > max_bytes) out.resize(max_bytes);
  return out;
}

Result<std::string> ReadLine(const std::string& path) {
  Result<std::string> text = ReadFile(path, 4096);
  if (!text) return text;
  return Trim(text->substr(0, text->find('\n')));
}

std::string LinkTarget(const std::string& path) {
  std::array<char, PATH_MAX> target;
  const ssize_t bytes = readlink(path.c_str(), target.data(), target.size());
  return std::string(target.data(), bytes > 0 ? static_cast<size_t>(bytes) : 0);
}

std::vector<std::string> EntriesOf(const std::string& directory) {
  std::vector<std::string> names;
  const DirStream stream(opendir(directory.c_str()));
  while (const dirent* entry = stream ? readdir(stream.get()) : nullptr) {
    if (entry->d_name[0] != '.') names.emplace_back(entry->d_name);
  }
  std::sort(names.begin(), names.end());
  return names;
}

Status WriteAll(int fd, const void* data, size_t bytes) {
  const char* at = static_cast<const char*>(data);
  while (bytes > 0) {
    const ssize_t put = write(fd, at, bytes);
    if (put < 0 && errno == EINTR) continue;
    if (put < 0) return PosixError("write", errno);
    at += put;
    bytes -= static_cast<size_t>(put);
  }
  return Ok();
}

UniqueFd OpenAt2(int dir, const std::string& path, const open_how& how) {
  static std::atomic<bool> is_told{false};
  UniqueFd fd(static_cast<int>(syscall(SYS_openat2, dir, path.c_str(), &how, sizeof(how))));
  // All supported kernels have it.
  if (!fd.IsValid() && errno == ENOSYS && !is_told.exchange(true)) {
    Log(LogLevel::kError,
        "no file of the mount can be read: a seccomp filter hides openat2; start ppcd without it "
        "(in its unit RestrictSUIDSGID=, DynamicUser= and SystemCallFilter= install one)");
    errno = ENOSYS;
  }
  return fd;
}

namespace {

// The number in a directory entry's name; -1: none.
int DescriptorOf(const char* name) {
  int number = *name == '\0' ? -1 : 0;
  for (; *name >= '0' && *name <= '9'; ++name) number = number * 10 + (*name - '0');
  return *name == '\0' ? number : -1;
}

}  // namespace

void CloseFrom(int first) {
#ifdef SYS_close_range
  if (syscall(SYS_close_range, first, ~0U, 0) == 0) return;
#endif
  // Not a loop to RLIMIT_NOFILE: descriptors may lie above a lowered limit, and it may be a
  // billion.
  close(first);  // frees one for the list if all are in use
  const int listing = open("/proc/self/fd", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (listing < 0) {
    const long limit = sysconf(_SC_OPEN_MAX);
    for (int fd = first; fd < limit; ++fd) close(fd);
    return;
  }
  alignas(dirent64) std::array<char, 4096> space;
  for (;;) {
    const long bytes = syscall(SYS_getdents64, listing, space.data(), space.size());
    if (bytes <= 0) break;
    for (long at = 0; at < bytes;) {
      const auto* const entry = reinterpret_cast<const dirent64*>(space.data() + at);
      at += entry->d_reclen;
      const int fd = DescriptorOf(entry->d_name);
      if (fd >= first && fd != listing) close(fd);
    }
  }
  close(listing);
}

std::string Trim(const std::string& text) {
  const char* const kSpace = " \t\r\n";
  const size_t first = text.find_first_not_of(kSpace);
  if (first == std::string::npos) return "";
  return text.substr(first, text.find_last_not_of(kSpace) - first + 1);
}

bool IsBelow(const std::string& path, const std::string& directory) {
  return path == directory || directory == "/" || path.starts_with(directory + "/");
}

std::string UnderRoot(const std::string& root, const std::string& path) {
  if (root.empty() || root == "/") return path;
  return root.back() == '/' ? root.substr(0, root.size() - 1) + path : root + path;
}

}  // namespace ppc
