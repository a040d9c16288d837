// SPDX-License-Identifier: Apache-2.0
// cycles base= mnt= [count=1000]: mounts, uses everything once, unmounts; at the end no inode, open
// file or device is left and the kernel's memory has not grown.
#include <fcntl.h>
#include <ppc/uapi.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <map>
#include <sstream>

#include "attack.h"

namespace ppc::attack {

namespace {

constexpr uint64_t kWarmUp = 100;

// Free pages in the lists of CPUs, in KiB.
long FreeOfCpus() {
  std::istringstream words(ReadText("/proc/zoneinfo"));
  long pages = 0, count = 0;
  for (std::string word; words >> word;) {
    if (word == "count:" && words >> count) pages += count;
  }
  return pages * (sysconf(_SC_PAGESIZE) >> 10);
}

// What must not grow, in KiB.  "no owner" is what nothing in meminfo accounts for: a page of the
// page cache that is truncated while a task keeps a reference ends there.  MemFree is without the
// free pages that CPUs keep to themselves: from 6.7 on megabytes, as many as were freed last.
std::map<std::string, long> KernelMemory() {
  std::map<std::string, long> result;
  WriteText("/proc/sys/vm/drop_caches", "3");
  sync();
  WriteText("/proc/sys/vm/compact_memory", "1");
  result["no owner"] -= FreeOfCpus();
  std::istringstream lines(ReadText("/proc/meminfo"));
  std::string name;
  long value = 0;
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line);
    words >> name >> value;
    for (const char* want :
         {"SUnreclaim:", "KernelStack:", "PageTables:", "Percpu:", "VmallocUsed:"}) {
      if (name == want) result[name] = value;
    }
    if (name == "MemTotal:") result["no owner"] += value;
    for (const char* owner : {"MemFree:", "Buffers:", "Cached:", "AnonPages:", "Slab:",
                              "KernelStack:", "PageTables:", "Percpu:", "VmallocUsed:"}) {
      if (name == owner) result["no owner"] -= value;
    }
  }
  return result;
}

bool FailErrno(const std::string& text) {
  std::printf("FAIL: %s (%s)\n", text.c_str(), strerror(errno));
  return false;
}

bool Use(const std::string& mnt, uint64_t round) {
  const int number = DeviceOf(mnt);
  const std::string path = mnt + "/a0";
  const Fd device(open(("/dev/ppc" + std::to_string(number)).c_str(), O_RDWR | O_CLOEXEC));
  if (!device) return FailErrno("opening the device");
  ppc_attach attach{};
  attach.flags = static_cast<uint32_t>(round % 16);
  attach.lease_ms = 1000;
  if (ioctl(device.get(), PPC_IOC_ATTACH, &attach)) return FailErrno("ATTACH");
  void* rings =
      mmap(nullptr, attach.nr_rings * attach.ring_stride, PROT_READ, MAP_SHARED, device.get(), 0);
  ppc_file file{};
  char name[] = "a0";
  file.name = reinterpret_cast<uintptr_t>(name);
  file.name_bytes = sizeof(name);
  if (ioctl(device.get(), PPC_IOC_LOOKUP, &file)) return FailErrno("LOOKUP");
  ppc_evict evict{};
  evict.file_id = file.file_id;
  evict.length = 1 << 20;
  evict.flags = PPC_EVICT_UNMAP;
  if (ioctl(device.get(), PPC_IOC_EVICT, &evict)) return FailErrno("EVICT");
  ppc_charge charge{};
  const Fd cgroup(open("/sys/fs/cgroup", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  charge.cgroup_fd = cgroup.get();
  ppc_load load{};
  if (ioctl(device.get(), PPC_IOC_CHARGE, &charge) == 0) load.charge = charge.handle;
  load.file_id = file.file_id;
  load.length = 128 << 10;
  load.flags = PPC_LOAD_WAIT;
  load.cancel_slot = PPC_CANCEL_NONE;
  if (ioctl(device.get(), PPC_IOC_LOAD, &load)) return FailErrno("LOAD");

  const Fd fd(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  struct stat status {};
  if (!fd || fstat(fd.get(), &status)) return FailErrno("opening a file");
  const auto bytes = static_cast<size_t>(status.st_size);
  void* map = mmap(nullptr, bytes, PROT_READ, MAP_PRIVATE, fd.get(), 0);
  const bool right =
      CheckRead(fd.get(), 0, 64 << 10, 64 << 10) == Verdict::kRight &&
      CheckMapped(static_cast<std::byte*>(map), 0, 192 << 10, 64 << 10) == Verdict::kRight;
  stat((mnt + "/none").c_str(), &status);
  munmap(map, bytes);
  if (rings != MAP_FAILED) munmap(rings, attach.nr_rings * attach.ring_stride);
  return right || FailErrno("wrong bytes");
}

// Every page of the file can be dropped: no task holds one.
bool NothingHeld(const std::string& base, const std::string& mnt) {
  if (Mount(base, mnt, "queue=1024")) return FailErrno("mount");
  ppc_evict evict{};
  {
    const Fd device(open(("/dev/ppc" + std::to_string(DeviceOf(mnt))).c_str(), O_RDWR | O_CLOEXEC));
    ppc_file file{};
    char name[] = "a0";
    file.name = reinterpret_cast<uintptr_t>(name);
    file.name_bytes = sizeof(name);
    if (ioctl(device.get(), PPC_IOC_LOOKUP, &file)) return FailErrno("LOOKUP");
    evict.file_id = file.file_id;
    evict.length = 1 << 20;
    evict.flags = PPC_EVICT_UNMAP | PPC_EVICT_DRAIN;
    if (ioctl(device.get(), PPC_IOC_EVICT, &evict)) return FailErrno("EVICT");
  }
  if (umount2(mnt.c_str(), 0)) return FailErrno("umount");
  if (evict.dropped == evict.asked) return true;
  std::printf("FAIL: of %llu bytes in the cache %llu cannot be dropped\n",
              static_cast<unsigned long long>(evict.asked),
              static_cast<unsigned long long>(evict.asked - evict.dropped));
  return false;
}

}  // namespace

int Cycles(const Words& words) {
  const std::string base = words.TextOption("base"), mnt = words.TextOption("mnt");
  const uint64_t count = words.Option("count", 1000);
  std::map<std::string, long> before;
  CatchSigbus();
  for (uint64_t i = 0; i < count; ++i) {
    if (i == std::min(kWarmUp, count / 2)) before = KernelMemory();
    errno = Mount(base, mnt, "queue=1024");
    if (errno) return FailErrno("mount"), 1;
    if (!Use(mnt, i)) return 1;
    if (umount2(mnt.c_str(), 0)) return FailErrno("umount"), 1;
  }
  if (!NothingHeld(base, mnt)) return 1;
  if (!NothingLeft("after the last unmount")) return 1;
  if (access("/dev/ppc0", F_OK) == 0) return FailErrno("a device is left"), 1;
  const auto after = KernelMemory();
  std::printf("cycles count=%lu KiB", count);
  // Its shadow of freed vmalloc areas, up to 8 MiB, has no owner and goes when 64 MiB have
  // gathered.
  const bool has_kasan =
      ReadText("/proc/kallsyms").find(" kasan_populate_vmalloc\n") != std::string::npos;
  bool good = true;
  for (const auto& [name, value] : after) {
    const long growth = value - before[name];
    const bool counts = name != "no owner" || !has_kasan;
    std::printf(" %s%+ld%s", name.c_str(), growth, counts ? "" : " (with KASAN: not judged)");
    // A leak of one small object per cycle is some 100 KiB; of one page, 4 MiB.
    if (counts && growth > static_cast<long>(words.Option("slack_kb", 2048))) good = false;
  }
  std::printf("\n");
  if (!good) std::printf("FAIL: the kernel's memory grows with each mount\n");
  return good ? 0 : 1;
}

}  // namespace ppc::attack
