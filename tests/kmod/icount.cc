// SPDX-License-Identifier: Apache-2.0
// ppc-icount FILE: nanoseconds per operation on a cached file of at least 16 MiB, one line of
// NAME=VALUE.  In a guest of `tools/vm --icount` a nanosecond is an executed instruction.
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <memory>

namespace {

constexpr off_t kBytes = 16 << 20;

long Now() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return now.tv_sec * 1000000000L + now.tv_nsec;
}

// Nanoseconds per call, the smaller of two rounds.
template <typename Round>
long Cost(long calls, Round round) {
  long best = 0;
  for (int i = 0; i < 2; ++i) {
    const long start = Now();
    round();
    const long cost = (Now() - start) / calls;
    if (i == 0 || cost < best) best = cost;
  }
  return best;
}

struct Free {
  void operator()(char* p) const { std::free(p); }
};

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  const int fd = open(argv[1], O_RDONLY | O_CLOEXEC);
  const std::unique_ptr<char, Free> buffer(static_cast<char*>(std::aligned_alloc(4096, 1 << 20)));
  if (fd < 0 || !buffer) return 1;
  const auto read_by = [&](size_t step) {
    return Cost(kBytes / static_cast<off_t>(step), [&] {
      for (off_t at = 0; at < kBytes; at += static_cast<off_t>(step)) {
        if (pread(fd, buffer.get(), step, at) != static_cast<ssize_t>(step)) std::abort();
      }
    });
  };
  const long mib = read_by(1 << 20), page = read_by(4096);
  const long around = Cost(kBytes >> 16, [&] {
    auto* map = static_cast<volatile char*>(mmap(nullptr, kBytes, PROT_READ, MAP_PRIVATE, fd, 0));
    for (off_t at = 0; at < kBytes; at += 65536) (void)map[at];
    munmap(const_cast<char*>(map), kBytes);
  });
  const long look = Cost(2000, [&] {
    struct stat status {};
    for (int i = 0; i < 2000; ++i) stat(argv[1], &status);
  });
  std::printf("icount read1m=%ld read4k=%ld fault=%ld stat=%ld\n", mib, page, around, look);
  return 0;
}
