// SPDX-License-Identifier: Apache-2.0
#include "extras/poll/proc_view.h"

#include <fcntl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>

#include "daemon/base/files.h"
#include "daemon/machine/proc_info.h"

namespace ppc {

std::vector<ProcFd> ProcView::Files() const {
  std::vector<ProcFd> files;
  for (const int fd : ListNumbers(base_ + "/fd")) {
    std::string path = LinkTarget(FdPath(fd));
    if (path.starts_with('/') && !path.starts_with("/dev/") && !path.starts_with("/proc/"))
      files.push_back({fd, std::move(path)});
  }
  return files;
}

std::optional<ProcMap> ParseMap(const std::string& line) {
  ProcMap map;
  int path_at = 0;
  unsigned long start = 0;
  unsigned long end = 0;
  unsigned long long offset = 0;
  if (std::sscanf(line.c_str(), "%lx-%lx %*4s %llx %*s %*u %n", &start, &end, &offset, &path_at) <
      3)
    return std::nullopt;
  map.start = start;
  map.end = end;
  map.offset = offset;
  if (path_at > 0) map.path = line.substr(static_cast<size_t>(path_at));
  return map;
}

std::vector<ProcMap> ProcView::Maps(const std::function<bool(const std::string&)>& wanted) const {
  constexpr size_t kMostBytes = 16 << 20;
  std::vector<ProcMap> maps;
  const Result<std::string> text = ReadFile(base_ + "/maps", kMostBytes);
  if (!text) return maps;
  for (size_t at = 0; at < text->size();) {
    size_t end = text->find('\n', at);
    if (end == std::string::npos) end = text->size();
    const size_t slash = text->find('/', at);
    if (slash < end && wanted(text->substr(slash, end - slash))) {
      std::optional<ProcMap> map = ParseMap(text->substr(at, end - at));
      if (map) maps.push_back(std::move(*map));
    }
    at = end + 1;
  }
  return maps;
}

std::vector<int> ProcView::Threads() const { return ListNumbers(base_ + "/task"); }

std::optional<ProcRead> ParseSyscall(const std::string& line) {
  long number = -1;
  unsigned long long arg[4] = {};
  // "running", or "-1 ..." in a fault, do not match.
  if (std::sscanf(line.c_str(), "%ld 0x%llx 0x%llx 0x%llx 0x%llx", &number, &arg[0], &arg[1],
                  &arg[2], &arg[3]) != 5)
    return std::nullopt;
  ProcRead read{.fd = static_cast<int>(arg[0])};
  switch (number) {
    case SYS_read:
      read.length = arg[2];
      return read;
    case SYS_pread64:
      return ProcRead{read.fd, true, arg[3], arg[2]};
    case SYS_readv:
      return read;
    case SYS_preadv:
    case SYS_preadv2:
      return ProcRead{read.fd, true, arg[3], 0};
    default:
      return std::nullopt;
  }
}

std::optional<ProcRead> ProcView::WaitingRead(int tid, bool* is_denied) const {
  const std::string path = base_ + "/task/" + std::to_string(tid) + "/syscall";
  const Result<std::string> line = ReadFile(path, 512);
  if (!line) {
    *is_denied |= line.error().code == EPERM || line.error().code == EACCES;
    return std::nullopt;
  }
  return ParseSyscall(*line);
}

std::optional<uint64_t> ProcView::Position(int fd) const {
  const Result<std::string> text = ReadFile(base_ + "/fdinfo/" + std::to_string(fd), 4096);
  return text ? NumberAfter(*text, "pos:") : std::nullopt;
}

std::optional<uint64_t> ProcView::ReadBytes(int tid) const {
  const Result<std::string> text = ReadFile(base_ + "/task/" + std::to_string(tid) + "/io", 4096);
  return text ? NumberAfter(*text, "rchar:") : std::nullopt;
}

std::optional<uint64_t> ProcView::ReadBytes() const {
  const Result<std::string> text = ReadFile(base_ + "/io", 4096);
  return text ? NumberAfter(*text, "rchar:") : std::nullopt;
}

std::optional<ProcView::Size> ProcView::MappedSize() const {
  const Result<std::string> text = ReadFile(base_ + "/statm", 256);
  unsigned long long total = 0;
  unsigned long long shared = 0;
  if (!text || std::sscanf(text->c_str(), "%llu %*u %llu", &total, &shared) != 2)
    return std::nullopt;
  return Size{total, shared};
}

UniqueFd ProcView::OpenPagemap() const {
  return UniqueFd(open((base_ + "/pagemap").c_str(), O_RDONLY | O_CLOEXEC));
}

size_t ReadPagemap(int pagemap, uint64_t address, std::span<uint64_t> entries) {
  static const uint64_t page = static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
  const ssize_t bytes = pread(pagemap, entries.data(), entries.size_bytes(),
                              static_cast<off_t>(address / page * sizeof(uint64_t)));
  return bytes < 0 ? 0 : static_cast<size_t>(bytes) / sizeof(uint64_t);
}

}  // namespace ppc
