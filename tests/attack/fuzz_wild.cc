// SPDX-License-Identifier: Apache-2.0
// Calls of no particular shape, the consumer page written over, and the applications whose misses
// make the events.
#include <fcntl.h>
#include <poll.h>
#include <ppc/uapi.h>
#include <sys/ioctl.h>
#include <sys/mman.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>

#include "fuzzer.h"

namespace ppc::attack {

void Fuzzer::Reopen(unsigned index) {
  Slot& slot = slots_[index];
  slot.Unmap();
  slot.fd =
      Fd(open(target_->device.c_str(), O_RDWR | O_CLOEXEC | (rng_.OneIn(2) ? O_NONBLOCK : 0)));
  if (Count(slot.fd.get())) target_->Fail("opening the device");
}

// Hostile indices: anything, anywhere in the consumer page; now and then what is right.
void Fuzzer::Scribble() {
  Slot& slot = AnySlot();
  if (!slot.consumer) return;
  auto* words = reinterpret_cast<uint32_t*>(slot.consumer);
  for (uint64_t i = 0; i < slot.consumer_bytes / 4; ++i) {
    std::atomic_ref<uint32_t>(words[i]).store(static_cast<uint32_t>(Number()),
                                              std::memory_order_relaxed);
  }
  if (!rng_.OneIn(3)) return;
  const auto* head = reinterpret_cast<const ppc_ring_head*>(slot.rings);
  auto* tails = reinterpret_cast<ppc_ring_tail*>(slot.consumer + sizeof(ppc_consumer));
  tails[0].tail = head->head - static_cast<uint32_t>(rng_.Below(3));
}

void Fuzzer::Wild() {
  // Type and direction of ours, of others, and anything; never another device's: the descriptor
  // is always one of ours.
  for (size_t i = 0; i < 1024; i += 8) {
    const uint64_t value = rng_.OneIn(2) ? 0 : Number();
    std::memcpy(argument_ + i, &value, 8);
  }
  static constexpr unsigned long kOurs[] = {PPC_IOC_INFO,   PPC_IOC_ATTACH,    PPC_IOC_DETACH,
                                            PPC_IOC_FILE,   PPC_IOC_LOOKUP,    PPC_IOC_LOAD,
                                            PPC_IOC_CANCEL, PPC_IOC_EVICT,     PPC_IOC_RESIDENT,
                                            PPC_IOC_CHARGE, PPC_IOC_FILE_MODE, PPC_IOC_FLUSH};
  unsigned long request = kOurs[rng_.Below(std::size(kOurs))];
  if (rng_.OneIn(2)) request ^= 1UL << rng_.Below(32);
  if (rng_.OneIn(8)) request = rng_.Next() & 0xffffffff;
  Count(ioctl(AnySlot().fd.get(), request, Pointer(argument_)));
}

void Fuzzer::DeviceMap() {
  const Slot& slot = AnySlot();
  const uint64_t bytes = rng_.OneIn(4) ? Number() & 0xffffffffff : (1 + rng_.Below(80)) * 4096;
  const uint64_t offset = rng_.Of({0, 4096, PPC_MMAP_CONSUMER, PPC_MMAP_CONSUMER + 4096,
                                   PPC_MMAP_CONSUMER - 4096, rng_.Next() & 0x7ffffffffffff000});
  const int protection = static_cast<int>(rng_.Below(8));
  void* map = mmap(nullptr, bytes, protection, rng_.OneIn(4) ? MAP_PRIVATE : MAP_SHARED,
                   slot.fd.get(), static_cast<off_t>(offset));
  if (Count(map == MAP_FAILED ? -1 : 0)) return;
  auto* byte = static_cast<volatile char*>(map);
  if (protection & PROT_READ) (void)byte[rng_.Below(std::min<uint64_t>(bytes, 1 << 20))];
  if (rng_.OneIn(4)) Count(mprotect(map, bytes, PROT_READ | PROT_WRITE));
  if (rng_.OneIn(4)) Count(madvise(map, bytes, static_cast<int>(rng_.Below(24))));
  munmap(map, bytes);
}

void Fuzzer::Descriptor() {
  const int fd = AnySlot().fd.get();
  pollfd request{fd, static_cast<short>(rng_.Next()), 0};
  switch (rng_.Below(6)) {
    case 0:
      Count(poll(&request, 1, rng_.OneIn(20) ? 1 : 0));
      break;
    case 1:
      Must(Count(read(fd, argument_, rng_.Below(kArgument))) != 0, "read() of the device");
      break;
    case 2:
      Must(Count(write(fd, argument_, rng_.Below(kArgument))) != 0, "write() to the device");
      break;
    case 3:
      Count(lseek(fd, static_cast<off_t>(Number()), static_cast<int>(rng_.Below(5))));
      break;
    case 4:
      Count(posix_fadvise(fd, 0, 0, static_cast<int>(rng_.Below(6))) ? -1 : 0);
      break;
    default:
      if (rng_.OneIn(10)) Reopen(static_cast<unsigned>(rng_.Below(kSlots)));
  }
}

// What an application does; this is where the events come from.
void Fuzzer::Application() {
  const std::string path = target_->mnt + "/" + File();
  const Fd fd(open(path.c_str(), O_RDONLY | O_CLOEXEC | (rng_.OneIn(8) ? O_DIRECT : 0)));
  if (Count(fd.get())) return Must(errno == EINVAL, "a file cannot be opened");
  const uint64_t seed = SeedOfName(path);
  const uint64_t at = rng_.Below(target_->bytes / 4096) * 4096;
  const size_t n = std::min<uint64_t>((1 + rng_.Below(16)) * 4096, target_->bytes - at);
  Verdict verdict = Verdict::kRight;
  if (rng_.OneIn(2)) {
    verdict = CheckRead(fd.get(), seed, at, n);
    if (verdict == Verdict::kError && errno == EINVAL) verdict = Verdict::kRight;  // O_DIRECT
  } else {
    void* map = mmap(nullptr, target_->bytes, PROT_READ | (rng_.OneIn(4) ? PROT_WRITE : 0),
                     MAP_PRIVATE | (rng_.OneIn(64) ? MAP_POPULATE : 0), fd.get(), 0);
    if (Count(map == MAP_FAILED ? -1 : 0)) return Must(false, "a file cannot be mapped");
    if (rng_.OneIn(16)) Count(madvise(map, target_->bytes, static_cast<int>(rng_.Below(4))));
    if (rng_.OneIn(64)) Count(mlock(static_cast<char*>(map) + at, n));
    verdict = CheckMapped(static_cast<std::byte*>(map), seed, at, n);
    munmap(map, target_->bytes);
  }
  Must(verdict == Verdict::kRight, "wrong bytes through the mount");
}

}  // namespace ppc::attack
