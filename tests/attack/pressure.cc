// SPDX-License-Identifier: Apache-2.0
// pressure mnt= group= [passes=6] [percent=90]: readers in a memory cgroup a quarter as large as
// their files, first alone (which meets the limit for certain), then with a consumer that loads and
// evicts for them and a process that takes nearly all of the machine's memory and gives it back.
// Only right bytes; no task is killed.
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <atomic>
#include <cerrno>
#include <cstring>

#include "attack.h"
#include "children.h"
#include "consumer.h"

namespace ppc::attack {

namespace {

int Passes(const std::string& path, const std::string& group, uint64_t passes) {
  WriteText(group + "/cgroup.procs", std::to_string(getpid()));
  CatchSigbus();
  const uint64_t content = SeedOfName(path);
  const Fd fd(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  struct stat status {};
  if (!fd || fstat(fd.get(), &status)) return 1;
  const auto bytes = static_cast<uint64_t>(status.st_size);
  void* map = mmap(nullptr, bytes, PROT_READ, MAP_PRIVATE, fd.get(), 0);
  for (uint64_t pass = 0; pass < passes; ++pass) {
    for (uint64_t at = 0; at < bytes; at += 65536) {
      const Verdict verdict = (pass & 1)
                                  ? CheckRead(fd.get(), content, at, 65536)
                                  : CheckMapped(static_cast<std::byte*>(map), content, at, 65536);
      if (verdict == Verdict::kRight) continue;
      std::printf("FAIL: %s at %lu in pass %lu: verdict %d, %s\n", path.c_str(), at, pass,
                  static_cast<int>(verdict), strerror(errno));
      return 1;
    }
  }
  munmap(map, bytes);
  return 0;
}

// Takes memory until little is left, holds it for a moment, gives it back.
int Hog(uint64_t bytes) {
  while (!Children::stop) {
    void* map = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (map == MAP_FAILED) return 1;
    for (uint64_t at = 0; at < bytes && !Children::stop; at += 4096) {
      static_cast<volatile char*>(map)[at] = 1;
    }
    usleep(200000);
    munmap(map, bytes);
  }
  return 0;
}

uint64_t Available() {
  const std::string text = ReadText("/proc/meminfo");
  const size_t at = text.find("MemAvailable:");
  return std::strtoull(text.c_str() + at + 13, nullptr, 10) << 10;
}

}  // namespace

int Pressure(const Words& words) {
  const std::string mnt = words.TextOption("mnt"), group = words.TextOption("group");
  const int number = DeviceOf(mnt);
  const uint64_t passes = words.Option("passes", 6);
  Children readers, others;
  auto read = [&](uint64_t times) {
    for (int i = 0; i < 2; ++i) {
      readers.Start([&, i] { return Passes(mnt + "/a" + std::to_string(i), group, times); });
    }
    return readers.Wait();
  };
  bool good = read(1);
  others.Start([&] {
    // Killed at the end by SIGTERM's default, which it never sees while it waits in an ioctl.
    signal(SIGTERM, [](int) { _exit(0); });
    return Consume("/dev/ppc" + std::to_string(number), 7, 8 << 20);
  });
  const uint64_t hog = Available() / 100 * words.Option("percent", 90);
  others.Start([&] { return Hog(hog); });
  good = read(passes) && good;
  good = others.Stop() && good;
  std::printf("pressure passes=%lu hog_mb=%lu loaded=%lu evicted=%lu\n", passes, hog >> 20,
              Counter(number, "loaded_bytes"), Counter(number, "evicted_bytes"));
  std::printf("memory.events %s\n", ReadText(group + "/memory.events").c_str());
  return good ? 0 : 1;
}

}  // namespace ppc::attack
