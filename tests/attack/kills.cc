// SPDX-License-Identifier: Apache-2.0
// kills mnt= [count=1000] [readers=2]: a consumer is killed with SIGKILL at a random moment, over
// and over, while applications read and map the same files.  After each the mount is native again
// at once and the next consumer can attach; the applications see only right bytes.
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <cerrno>
#include <cstring>

#include "attack.h"
#include "children.h"
#include "consumer.h"

namespace ppc::attack {

namespace {

// Reads and maps a file again and again; it leaves the cache now and then.
int Application(const std::string& path, uint64_t seed) {
  Rng rng(seed);
  const uint64_t content = SeedOfName(path);
  CatchSigbus();
  for (uint64_t pieces = 0; !Children::stop;) {
    const Fd fd(open(path.c_str(), O_RDONLY | O_CLOEXEC));
    struct stat status {};
    if (!fd || fstat(fd.get(), &status)) {
      std::printf("FAIL: %s: %s\n", path.c_str(), strerror(errno));
      return 1;
    }
    const auto bytes = static_cast<uint64_t>(status.st_size);
    void* map = mmap(nullptr, bytes, PROT_READ, MAP_PRIVATE, fd.get(), 0);
    for (int i = 0; i < 30 && !Children::stop; ++i, pieces += 2) {
      const uint64_t at = rng.Below(bytes / 65536) * 65536;
      if (CheckRead(fd.get(), content, at, 65536) != Verdict::kRight ||
          CheckMapped(static_cast<std::byte*>(map), content, at, 65536) != Verdict::kRight) {
        std::printf("FAIL: %s is wrong at %lu\n", path.c_str(), at);
        return 1;
      }
    }
    munmap(map, bytes);
    if (rng.OneIn(4)) posix_fadvise(fd.get(), 0, 0, POSIX_FADV_DONTNEED);
  }
  return 0;
}

}  // namespace

int Kills(const Words& words) {
  const std::string mnt = words.TextOption("mnt");
  const int number = DeviceOf(mnt);
  const std::string device = "/dev/ppc" + std::to_string(number);
  const std::string state = "/sys/fs/ppc/" + std::to_string(number) + "/state";
  const uint64_t count = words.Option("count", 1000);
  uint64_t attached = 0;
  Children applications;
  for (uint64_t i = 0; i < words.Option("readers", 2); ++i) {
    applications.Start([&, i] { return Application(mnt + "/a" + std::to_string(i), i); });
  }
  Rng rng(words.Option("seed", 1));
  for (uint64_t i = 0; i < count; ++i) {
    Children consumer;
    consumer.Start([&] { return Consume(device, i, 4 << 20) + 1; });
    auto is_attached = [&] { return ReadText(state).find("attached") != std::string::npos; };
    // However slow the machine is.
    for (int tries = rng.OneIn(4) ? 0 : 10000; tries > 0 && !is_attached(); --tries) usleep(1000);
    usleep(static_cast<useconds_t>(rng.Below(60000)));
    attached += is_attached();
    const int status = consumer.Kill();
    if (!WIFSIGNALED(status)) {
      std::printf("FAIL: consumer %lu ended by itself: %s\n", i, strerror(WEXITSTATUS(status) - 1));
      return 1;
    }
    if (ReadText(state) != "native\n") {
      std::printf("FAIL: killed, but the state is %s", ReadText(state).c_str());
      return 1;
    }
  }
  std::printf("kills count=%lu attached=%lu queued=%lu loaded=%lu evicted=%lu wakeups=%lu\n", count,
              attached, Counter(number, "events_queued"), Counter(number, "loaded_bytes"),
              Counter(number, "evicted_bytes"), Counter(number, "wakeups"));
  if (!applications.Stop()) return 1;
  if (attached < count / 2) {
    std::printf("FAIL: too few were killed while attached\n");
    return 1;
  }
  return 0;
}

}  // namespace ppc::attack
