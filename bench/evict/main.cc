// SPDX-License-Identifier: Apache-2.0
// ppc-evict-ladder: what the observer's eviction gives on this kernel, by who maps a cached file.
// Threads: one; mappers are processes of their own.
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

#include "daemon/backend/file_cache.h"
#include "daemon/backend/observer/evict_range.h"
#include "daemon/base/clock.h"
#include "tools/model/common/options.h"

namespace {

using namespace ppc;
using namespace ppc::bench;

constexpr char kUsage[] =
    "usage: ppc-evict-ladder [--size SIZE] [--dir DIR]\n"
    "Caches a file of SIZE bytes (default 256M) in DIR (default .), lets processes map it private\n"
    "and writable, as torch maps checkpoints, and evicts it 2 MiB at a time.  One line per case:\n"
    "what of it went, what stayed mapped, and how fast.\n";

// Touches all pages, writes every `write_every`th (0: none), says where, and waits for its end.
pid_t StartMapper(int fd, size_t bytes, size_t write_every, uintptr_t* address) {
  std::array<int, 2> pipe_fds{};
  if (pipe(pipe_fds.data()) != 0) return -1;
  const pid_t pid = fork();
  if (pid != 0) {
    close(pipe_fds[1]);
    const ssize_t got = read(pipe_fds[0], address, sizeof(*address));
    close(pipe_fds[0]);
    return got == static_cast<ssize_t>(sizeof(*address)) ? pid : -1;
  }
  void* const map = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE, fd, 0);
  if (map == MAP_FAILED) _exit(1);
  auto* const at = static_cast<volatile char*>(map);
  for (size_t page = 0; page < bytes / kPageBytes; ++page) {
    if (write_every != 0 && page % write_every == 0) {
      at[page * kPageBytes] = 1;
    } else {
      (void)at[page * kPageBytes];
    }
  }
  const auto where = reinterpret_cast<uintptr_t>(map);
  if (write(pipe_fds[1], &where, sizeof(where)) != static_cast<ssize_t>(sizeof(where))) _exit(1);
  for (;;) pause();
}

struct Case {
  const char* name;
  int mappers;
  size_t write_every;
  bool unmap;
};

Status RunCase(int fd, size_t bytes, const Case& row) {
  const Result<FileLoad> loaded = LoadFile(fd, 0, bytes, nullptr);
  if (!loaded) return loaded.error();
  std::vector<pid_t> pids;
  std::vector<uintptr_t> addresses;
  for (int i = 0; i < row.mappers; ++i) {
    uintptr_t address = 0;
    const pid_t pid = StartMapper(fd, bytes, row.write_every, &address);
    if (pid < 0) return Error{EIO, "a mapping process did not start"};
    pids.push_back(pid);
    addresses.push_back(address);
  }
  const std::string path =
      std::filesystem::read_symlink("/proc/self/fd/" + std::to_string(fd)).string();
  EvictResult sum;
  Status status = Ok();
  const uint64_t start = MonotonicNs();
  for (size_t at = 0; at < bytes && status; at += kStepBytes) {
    const size_t step = std::min<size_t>(kStepBytes, bytes - at);
    std::vector<MappedPart> parts;
    for (size_t i = 0; i < pids.size(); ++i) {
      parts.push_back(MappedPart{.pid = pids[i],
                                 .address = addresses[i] + at,
                                 .offset = at,
                                 .bytes = step,
                                 .start = addresses[i],
                                 .end = addresses[i] + bytes,
                                 .path = path});
    }
    const Result<EvictResult> done = EvictRange(fd, at, step, row.unmap, parts, "/proc");
    if (!done) {
      status = done.error();
      break;
    }
    sum.asked += done->asked;
    sum.dropped += done->dropped;
    sum.mapped += done->mapped;
  }
  const double seconds = static_cast<double>(MonotonicNs() - start) / 1e9;
  for (const pid_t pid : pids) {
    kill(pid, SIGKILL);
    waitpid(pid, nullptr, 0);
  }
  if (!status) return status;
  const auto share = [&](uint64_t part) {
    return 100.0 * static_cast<double>(part) /
           static_cast<double>(std::max<uint64_t>(1, sum.asked));
  };
  std::printf("%-52s %5.1f%% dropped, %5.1f%% stayed mapped, %6.0f MB/s\n", row.name,
              share(sum.dropped), share(sum.mapped),
              static_cast<double>(sum.asked) / 1e6 / seconds);
  std::fflush(stdout);
  return Ok();
}

Status RunAll(const std::string& path, size_t bytes) {
  const UniqueFd fd(open(path.c_str(), O_CREAT | O_EXCL | O_RDWR | O_CLOEXEC, 0600));
  if (!fd.IsValid()) return PosixError("create " + path, errno);
  unlink(path.c_str());
  const std::vector<char> block(kStepBytes, 'x');
  for (size_t at = 0; at < bytes; at += block.size()) {
    const size_t step = std::min(block.size(), bytes - at);
    if (write(fd.Get(), block.data(), step) != static_cast<ssize_t>(step)) {
      return PosixError("write " + path, errno);
    }
  }
  if (fsync(fd.Get()) != 0) return PosixError("sync " + path, errno);
  for (const Case& row : {Case{"nobody maps it", 0, 0, true},
                          Case{"one process has touched all, not asked to unmap", 1, 0, false},
                          Case{"one process has touched all", 1, 0, true},
                          Case{"one process has written every 16th page", 1, 16, true},
                          Case{"two processes have touched all", 2, 0, true}}) {
    const Status status = RunCase(fd.Get(), bytes, row);
    if (!status) return status;
  }
  return Ok();
}

}  // namespace

int main(int argc, char** argv) {
  Result<Options> options = Options::Parse(argc, argv, {"size", "dir"}, {"help"});
  if (!options.ok()) return Fail("ppc-evict-ladder", options.error());
  if (options->Has("help")) {
    std::fputs(kUsage, stdout);
    return 0;
  }
  const Result<uint64_t> bytes = options->Size("size", 256 << 20);
  if (!bytes.ok()) return Fail("ppc-evict-ladder", bytes.error());
  const std::string path =
      options->Text("dir", ".") + "/ppc-evict-ladder." + std::to_string(getpid());
  const Status status = RunAll(path, *bytes / kPageBytes * kPageBytes);
  return status ? 0 : Fail("ppc-evict-ladder", status.error());
}
