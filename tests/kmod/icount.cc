// SPDX-License-Identifier: Apache-2.0
// ppc-icount [-m] DIR [OP...]: nanoseconds per operation, one line of NAME=VALUE.  In a guest of
// `tools/vm --icount` a nanosecond is an executed instruction.
//
// Each call is timed by itself, and the median of all is printed (-m: the mean), less what the
// timing costs: the guest's clock interrupt, which is in one call of many, is in no median.
//
// DIR holds `a`, cached, 16 MiB; `many/`, 256 files, for cold_stat; `hole`, 16 MiB without a block
// on a file system that caches nothing for one (tmpfs), for miss4k.  A first pass over the file
// is not counted, unless -1 asks for that one alone.
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <numeric>
#include <string>
#include <vector>

namespace {

constexpr size_t kFileBytes = 16 << 20, kMib = 1 << 20, kPage = 4096;
constexpr int kFiles = 256;

struct Free {
  void operator()(char* p) const { std::free(p); }
};
using Buffer = std::unique_ptr<char, Free>;

[[noreturn]] void Die(const std::string& what) {
  std::perror(("ppc-icount: " + what).c_str());
  std::exit(1);
}

long Now() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return now.tv_sec * 1000000000L + now.tv_nsec;
}

class Samples {
 public:
  template <typename Call>
  void Take(Call call) {
    const long start = Now();
    call();
    values_.push_back(Now() - start);
  }
  void Clear() { values_.clear(); }
  void DivideBy(long calls) {
    for (long& value : values_) value /= calls;
  }
  long Median() {
    const auto middle = values_.begin() + static_cast<long>(values_.size() / 2);
    std::nth_element(values_.begin(), middle, values_.end());
    return *middle;
  }
  long Mean() const {
    return std::accumulate(values_.begin(), values_.end(), 0L) / static_cast<long>(values_.size());
  }

 private:
  std::vector<long> values_;
};

class File {
 public:
  explicit File(const std::string& path, int flags = O_RDONLY)
      : fd_(open(path.c_str(), flags | O_CLOEXEC)) {
    if (fd_ < 0) Die(path);
  }
  File(const File&) = delete;
  File& operator=(const File&) = delete;
  ~File() { close(fd_); }
  int fd() const { return fd_; }

 private:
  int fd_;
};

class Bench {
 public:
  Bench(std::string dir, bool first_only) : dir_(std::move(dir)), first_only_(first_only) {
    buffer_.reset(static_cast<char*>(std::aligned_alloc(kPage, kMib)));
    std::memset(buffer_.get(), 1, kMib);
  }

  void Read(const std::string& name, size_t step, Samples* samples) {
    const File file(dir_ + "/" + name);
    const size_t end = step == kMib ? kFileBytes : 512 * step;
    Rounds(step == kMib ? 4 : 1, samples, [&] {
      for (size_t at = 0; at < end; at += step) {
        ssize_t got = 0;
        samples->Take([&] { got = pread(file.fd(), buffer_.get(), step, static_cast<off_t>(at)); });
        if (got != static_cast<ssize_t>(step)) Die("read of " + name);
      }
    });
  }

  // memcpy() out of a fresh mapping, faulted in on the way.  In aligned pieces of 4 MiB, so that
  // each needs as many page tables and crosses as many beacons as the others.
  void Copy(Samples* samples) {
    constexpr size_t kPiece = 4 * kMib;
    const File file(dir_ + "/a");
    void* room = mmap(nullptr, kFileBytes + kPiece, PROT_NONE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (room == MAP_FAILED) Die("mmap");
    char* const map =
        static_cast<char*>(room) + kPiece - reinterpret_cast<uintptr_t>(room) % kPiece;
    // For 100 ms: what else the guest does now and then must not be in half of them.
    Rounds(24, samples, [&] {
      if (mmap(map, kFileBytes, PROT_READ, MAP_PRIVATE | MAP_FIXED, file.fd(), 0) == MAP_FAILED)
        Die("mmap of a");
      for (size_t at = 0; at < kFileBytes; at += kPiece) {
        samples->Take([&] {
          for (size_t i = 0; i < kPiece; i += kMib) std::memcpy(buffer_.get(), map + at + i, kMib);
        });
      }
    });
    samples->DivideBy(kPiece / kMib);
    munmap(room, kFileBytes + kPiece);
  }

  void Stat(Samples* samples) {
    const std::string path = dir_ + "/a";
    Rounds(1, samples, [&] {
      for (int i = 0; i < kFiles; ++i) Look(path, samples);
    });
  }

  void Open(Samples* samples) {
    const std::string path = dir_ + "/a";
    Rounds(1, samples, [&] {
      for (int i = 0; i < kFiles; ++i) {
        samples->Take([&] { close(open(path.c_str(), O_RDONLY | O_CLOEXEC)); });
      }
    });
  }

  // Neither dentry nor inode is cached; what they are read from is.
  void ColdStat(Samples* samples) {
    Rounds(1, samples, [&] {
      Samples unused;
      sync();
      const File drop("/proc/sys/vm/drop_caches", O_WRONLY);
      if (write(drop.fd(), "2", 1) != 1) Die("drop_caches");
      Look(dir_ + "/many", &unused);
      for (int i = 0; i < kFiles; ++i) Look(dir_ + "/many/" + std::to_string(i), samples);
    });
  }

 private:
  template <typename Round>
  void Rounds(int rounds, Samples* samples, Round round) {
    round();
    if (first_only_) return;
    samples->Clear();
    for (int i = 0; i < rounds; ++i) round();
  }

  static void Look(const std::string& path, Samples* samples) {
    struct stat status {};
    int failed = 0;
    samples->Take([&] { failed = stat(path.c_str(), &status); });
    if (failed) Die(path);
  }

  const std::string dir_;
  const bool first_only_;
  Buffer buffer_;
};

}  // namespace

int main(int argc, char** argv) {
  bool mean = false, first_only = false;
  int at = 1;
  for (; at < argc && argv[at][0] == '-'; ++at) {
    mean |= argv[at] == std::string("-m");
    first_only |= argv[at] == std::string("-1");
  }
  if (at == argc) {
    std::fprintf(stderr, "usage: ppc-icount [-m] [-1] DIR [OP...]\n");
    return 2;
  }
  Bench bench(argv[at++], first_only);
  const std::map<std::string, std::function<void(Samples*)>> operations = {
      {"read1m", [&](Samples* s) { bench.Read("a", kMib, s); }},
      {"read4k", [&](Samples* s) { bench.Read("a", kPage, s); }},
      {"copy1m", [&](Samples* s) { bench.Copy(s); }},
      {"stat", [&](Samples* s) { bench.Stat(s); }},
      {"open_close", [&](Samples* s) { bench.Open(s); }},
      {"cold_stat", [&](Samples* s) { bench.ColdStat(s); }},
      {"miss4k", [&](Samples* s) { bench.Read("hole", kPage, s); }},
  };
  std::vector<std::string> names(argv + at, argv + argc);
  if (names.empty()) names = {"read1m", "read4k", "copy1m", "stat", "open_close", "cold_stat"};

  Samples empty;
  for (int i = 0; i < 1000; ++i) empty.Take([] {});
  const long timing = empty.Median();
  std::printf("icount");
  for (const std::string& name : names) {
    const auto operation = operations.find(name);
    if (operation == operations.end()) {
      std::fprintf(stderr, "ppc-icount: no operation '%s'\n", name.c_str());
      return 2;
    }
    Samples samples;
    operation->second(&samples);
    std::printf(" %s=%ld", name.c_str(), (mean ? samples.Mean() : samples.Median()) - timing);
  }
  std::printf("\n");
  return 0;
}
