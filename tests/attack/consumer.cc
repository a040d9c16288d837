// SPDX-License-Identifier: Apache-2.0
#include "consumer.h"

#include <fcntl.h>
#include <poll.h>
#include <ppc/uapi.h>
#include <sys/ioctl.h>
#include <sys/mman.h>

#include <atomic>
#include <cerrno>

namespace ppc::attack {

namespace {

// Loads around an event, or evicts, or asks; the answers are checked elsewhere (fuzz.cc).
int React(int device, const ppc_event& event, uint64_t bytes, Rng* rng) {
  ppc_load load{};
  ppc_evict evict{};
  switch (rng->Below(3)) {
    case 0:
      load.file_id = event.file_id;
      load.offset = event.offset;
      load.length = 1 + rng->Below(bytes);
      load.flags = rng->OneIn(2) ? PPC_LOAD_WAIT : 0;
      load.cancel_slot = PPC_CANCEL_NONE;
      return ioctl(device, PPC_IOC_LOAD, &load) ? errno : 0;
    case 1:
      evict.file_id = event.file_id;
      evict.length = bytes;
      evict.flags = PPC_EVICT_UNMAP | (rng->OneIn(50) ? PPC_EVICT_DRAIN : 0);
      return ioctl(device, PPC_IOC_EVICT, &evict) ? errno : 0;
    default:
      return 0;
  }
}

}  // namespace

int Consume(const std::string& device, uint64_t seed, uint64_t bytes) {
  Rng rng(seed);
  const Fd fd(open(device.c_str(), O_RDWR | O_CLOEXEC));
  if (!fd) return errno;
  ppc_attach attach{};
  attach.flags = static_cast<uint32_t>(rng.Below(16));
  attach.lease_ms = 60000;
  if (ioctl(fd.get(), PPC_IOC_ATTACH, &attach)) return errno;
  auto map = [&](int protection, uint64_t offset, uint64_t size) {
    return static_cast<char*>(
        mmap(nullptr, size, protection, MAP_SHARED, fd.get(), static_cast<off_t>(offset)));
  };
  char* rings = map(PROT_READ, PPC_MMAP_RINGS, attach.nr_rings * attach.ring_stride);
  char* consumer = map(PROT_READ | PROT_WRITE, PPC_MMAP_CONSUMER, attach.consumer_bytes);
  if (rings == MAP_FAILED || consumer == MAP_FAILED) return errno;
  auto* shared = reinterpret_cast<ppc_consumer*>(consumer);
  auto* tails = reinterpret_cast<ppc_ring_tail*>(consumer + sizeof(ppc_consumer));
  for (;;) {
    bool idle = true;
    for (uint32_t i = 0; i < attach.nr_rings; ++i) {
      char* ring = rings + i * attach.ring_stride;
      auto& head = reinterpret_cast<ppc_ring_head*>(ring)->head;
      const uint32_t end = std::atomic_ref<uint32_t>(head).load(std::memory_order_acquire);
      uint32_t tail = tails[i].tail;
      if (tail == end) continue;
      idle = false;
      const ppc_event event =
          reinterpret_cast<const ppc_event*>(ring + 4096)[(end - 1) & (attach.ring_entries - 1)];
      std::atomic_ref<uint32_t>(tails[i].tail).store(end, std::memory_order_release);
      const int error = React(fd.get(), event, bytes, &rng);
      if (error && error != ESTALE) return error;
    }
    if (!idle) continue;
    std::atomic_ref<uint32_t>(shared->need_wakeup).store(1, std::memory_order_seq_cst);
    pollfd request{fd.get(), POLLIN, 0};
    poll(&request, 1, 20);
    if (request.revents & POLLHUP) return ENODEV;
  }
}

}  // namespace ppc::attack
