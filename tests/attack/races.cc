// SPDX-License-Identifier: Apache-2.0
// races base= mnt= module= [rounds=200]: mounts and unmounts (lazily too), unloads and loads the
// module, while others open, read, map, list, load, evict and kill, and files below are truncated,
// renamed and deleted.  Unchanged files have the right bytes whenever they can be
// reached.
#include <dirent.h>
#include <fcntl.h>
#include <ppc/uapi.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#include <atomic>
#include <cerrno>
#include <cstring>
#include <memory>

#include "attack.h"
#include "children.h"
#include "consumer.h"

namespace ppc::attack {

namespace {

struct Place {
  std::string base, mnt, module;
};

// A number that the child processes see, too.
class SharedCount {
 public:
  SharedCount()
      : page_(mmap(nullptr, sizeof(std::atomic<uint64_t>), PROT_READ | PROT_WRITE,
                   MAP_SHARED | MAP_ANONYMOUS, -1, 0)) {}
  SharedCount(const SharedCount&) = delete;
  SharedCount& operator=(const SharedCount&) = delete;
  ~SharedCount() { munmap(page_, sizeof(std::atomic<uint64_t>)); }
  bool IsThere() const { return page_ != MAP_FAILED; }
  std::atomic<uint64_t>& value() const { return *static_cast<std::atomic<uint64_t>*>(page_); }

 private:
  void* page_;
};

int Failure(const std::string& text) {
  std::printf("FAIL: %s: %s\n", text.c_str(), strerror(errno));
  return 1;
}

// Opens, reads and maps what is reachable; a0..a2 are never changed, t is.
int Application(const Place& place, uint64_t seed) {
  Rng rng(seed);
  uint64_t reached = 0;
  CatchSigbus();
  while (!Children::stop) {
    const uint64_t content = rng.Below(4);
    const bool changed = content == 3;
    const std::string path = place.mnt + "/" + (changed ? "t" : "a" + std::to_string(content));
    const Fd fd(open(path.c_str(), O_RDONLY | O_CLOEXEC));
    if (!fd) {
      if (errno != ENOENT && errno != ESTALE) return Failure("opening " + path);
      usleep(200);
      continue;
    }
    ++reached;
    constexpr uint64_t kBytes = 2 << 20;
    void* map = mmap(nullptr, kBytes, PROT_READ, MAP_PRIVATE, fd.get(), 0);
    if (map == MAP_FAILED) return Failure("mapping " + path);
    for (int i = 0; i < 8; ++i) {
      const uint64_t at = rng.Below(kBytes / 16384) * 16384;
      const Verdict read = CheckRead(fd.get(), content, at, 16384);
      const Verdict mapped = CheckMapped(static_cast<std::byte*>(map), content, at, 16384);
      if (changed) continue;
      if (read != Verdict::kRight || mapped != Verdict::kRight)
        return Failure("wrong bytes in " + path);
    }
    munmap(map, kBytes);
  }
  return reached ? 0 : Failure("an application never reached a file");
}

int Lister(const Place& place) {
  while (!Children::stop) {
    const std::unique_ptr<DIR, int (*)(DIR*)> dir(opendir(place.mnt.c_str()), closedir);
    struct stat status {};
    while (dir && readdir(dir.get())) stat((place.mnt + "/none").c_str(), &status);
    stat((place.mnt + "/dir/sub").c_str(), &status);
    usleep(500);
  }
  return 0;
}

// Speaks to whichever device is there; mounts go away under it.
int Runner(uint64_t seed) {
  Rng rng(seed);
  while (!Children::stop) {
    const std::string device = "/dev/ppc" + std::to_string(rng.Below(4));
    const Fd fd(open(device.c_str(), O_RDWR | O_CLOEXEC));
    if (!fd) {
      if (errno != ENOENT && errno != ENODEV && errno != ENXIO) return Failure("opening " + device);
      usleep(300);
      continue;
    }
    ppc_attach attach{};
    attach.flags = static_cast<uint32_t>(rng.Below(16));
    attach.lease_ms = 100;
    ioctl(fd.get(), PPC_IOC_ATTACH, &attach);
    for (int i = 0; i < 20; ++i) {
      char name[] = "a0";
      name[1] = static_cast<char>('0' + rng.Below(3));
      ppc_file file{};
      file.name = reinterpret_cast<uintptr_t>(rng.OneIn(4) ? "t" : name);
      file.name_bytes = 3;
      if (ioctl(fd.get(), PPC_IOC_LOOKUP, &file)) {
        if (errno == ENODEV) break;
        if (errno != ENOENT && errno != ESTALE && errno != EINVAL) return Failure("LOOKUP");
        continue;
      }
      ppc_load load{};
      load.file_id = file.file_id;
      load.length = 2 << 20;
      load.flags = rng.OneIn(2) ? PPC_LOAD_WAIT : 0;
      load.cancel_slot = PPC_CANCEL_NONE;
      if (ioctl(fd.get(), PPC_IOC_LOAD, &load) && errno != ENODEV && errno != ESTALE) {
        return Failure("LOAD");
      }
      ppc_evict evict{};
      evict.file_id = file.file_id;
      evict.length = 2 << 20;
      evict.flags = static_cast<uint32_t>(rng.Below(4));
      if (ioctl(fd.get(), PPC_IOC_EVICT, &evict) && errno != ENODEV && errno != ESTALE) {
        return Failure("EVICT");
      }
    }
  }
  return 0;
}

// Changes t below: cut, grown, renamed over, deleted, made again; and a directory.
int Changer(const Place& place, uint64_t seed) {
  Rng rng(seed);
  const std::string t = place.base + "/t", other = place.base + "/other";
  while (!Children::stop) {
    switch (rng.Below(6)) {
      case 0:
        if (truncate(t.c_str(), static_cast<off_t>(rng.Below(3 << 20)))) {
          if (errno != ENOENT) return Failure("truncate");
        }
        break;
      case 1:
        unlink(t.c_str());
        break;
      case 2:
        MakeFile(other, 1 << 20, 3);
        rename(other.c_str(), t.c_str());
        break;
      case 3:
        mkdir((place.base + "/dir").c_str(), 0755);
        mkdir((place.base + "/dir/sub").c_str(), 0755);
        break;
      case 4:
        rmdir((place.base + "/dir/sub").c_str());
        rename((place.base + "/dir").c_str(), (place.base + "/rid").c_str());
        rmdir((place.base + "/rid").c_str());
        break;
      default:
        if (rng.OneIn(4)) WriteText("/proc/sys/vm/drop_caches", rng.OneIn(2) ? "2" : "3");
    }
    usleep(static_cast<useconds_t>(rng.Below(3000)));
  }
  return 0;
}

// Unloads the module whenever it is unused, and loads it again.
int Loader(const Place& place, uint64_t seed, const std::atomic<uint64_t>& mounted) {
  Rng rng(seed);
  uint64_t unloaded = 0;
  while (!Children::stop) {
    if (syscall(SYS_delete_module, "ppc", O_NONBLOCK)) {
      if (errno != EWOULDBLOCK && errno != EBUSY && errno != ENOENT) return Failure("rmmod");
      usleep(1000);
      continue;
    }
    ++unloaded;
    const Fd file(open(place.module.c_str(), O_RDONLY | O_CLOEXEC));
    if (syscall(SYS_finit_module, file.get(), "", 0) && errno != EEXIST) return Failure("insmod");
    // A mount must have been made: on a slow machine no mount would ever come to its end.
    for (const uint64_t before = mounted; mounted == before && !Children::stop;) usleep(1000);
    usleep(static_cast<useconds_t>(rng.Below(300000)));
  }
  std::printf("races unloaded=%lu\n", unloaded);
  return 0;
}

}  // namespace

int Races(const Words& words) {
  const Place place{words.TextOption("base"), words.TextOption("mnt"), words.TextOption("module")};
  const uint64_t rounds = words.Option("rounds", 200), seed = words.Option("seed", 1);
  Children children;
  for (uint64_t i = 0; i < 2; ++i) children.Start([&, i] { return Application(place, seed + i); });
  children.Start([&] { return Lister(place); });
  children.Start([&] { return Runner(seed + 10); });
  children.Start([&] { return Changer(place, seed + 20); });
  const SharedCount count;
  if (!count.IsThere()) return Failure("shared memory");
  std::atomic<uint64_t>& mounted = count.value();
  if (!place.module.empty()) {
    children.Start([&] { return Loader(place, seed + 40, mounted); });
  }
  Rng rng(seed + 30);
  uint64_t lazy = 0, busy = 0;
  while (mounted < rounds) {
    const int error = Mount(place.base, place.mnt, "queue=1024");
    // The module is being loaded or unloaded: the type is not known, or another loads it.
    if (error == ENODEV || error == ENOENT) continue;
    if (error) {
      errno = error;
      return Failure("mount");
    }
    ++mounted;
    if (rng.OneIn(8)) Mount(place.base, place.mnt, "queue=1024");  // two at once, one on the other
    usleep(static_cast<useconds_t>(rng.Below(80000)));
    // Until nothing of ours is on the directory: EINVAL.
    for (;;) {
      const bool now = rng.OneIn(4);
      if (umount2(place.mnt.c_str(), now ? MNT_DETACH : 0) == 0) {
        lazy += now;
      } else if (errno == EBUSY) {
        ++busy;
        usleep(1000);
      } else {
        break;
      }
    }
    // The module can go only while nothing is mounted.
    if (rng.OneIn(3)) usleep(static_cast<useconds_t>(rng.Below(60000)));
  }
  std::printf("races mounted=%lu lazy=%lu busy=%lu\n", mounted.load(), lazy, busy);
  return children.Stop() ? 0 : 1;
}

}  // namespace ppc::attack
