// SPDX-License-Identifier: Apache-2.0
// storm mnt= [events=300K] [threads=3]: a reader that attaches for everything and never consumes,
// while applications make events as fast as they can.  No task waits, no byte is wrong, each event
// is either in a ring or counted as dropped, and the first record after a loss says so.  Then the
// same with a short lease: it must run out under the storm.
#include <dirent.h>
#include <fcntl.h>
#include <ppc/uapi.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <atomic>
#include <cerrno>
#include <cstring>
#include <memory>
#include <thread>
#include <utility>

#include "attack.h"

namespace ppc::attack {

namespace {

struct Reader {
  Fd fd;
  ppc_attach layout{};
  char* rings = nullptr;
  char* consumer = nullptr;

  Reader() = default;
  Reader(const Reader&) = delete;
  Reader& operator=(const Reader&) = delete;
  // A mapping holds the descriptor, and so the attachment.
  ~Reader() {
    if (rings) munmap(rings, layout.nr_rings * layout.ring_stride);
    if (consumer) munmap(consumer, layout.consumer_bytes);
  }
  bool Attach(const std::string& device, uint32_t flags, uint32_t lease_ms) {
    fd = Fd(open(device.c_str(), O_RDWR | O_CLOEXEC));
    layout.flags = flags;
    layout.lease_ms = lease_ms;
    if (!fd || ioctl(fd.get(), PPC_IOC_ATTACH, &layout)) return false;
    rings = Map(PROT_READ, PPC_MMAP_RINGS, layout.nr_rings * layout.ring_stride);
    consumer = Map(PROT_READ | PROT_WRITE, PPC_MMAP_CONSUMER, layout.consumer_bytes);
    return rings && consumer;
  }
  char* Map(int protection, uint64_t offset, uint64_t bytes) const {
    void* map = mmap(nullptr, bytes, protection, MAP_SHARED, fd.get(), static_cast<off_t>(offset));
    return map == MAP_FAILED ? nullptr : static_cast<char*>(map);
  }
  const ppc_ring_head& Head(uint32_t i) const {
    return *reinterpret_cast<const ppc_ring_head*>(rings + i * layout.ring_stride);
  }
  const ppc_event& Record(uint32_t i, uint32_t at) const {
    return reinterpret_cast<const ppc_event*>(rings + i * layout.ring_stride +
                                              4096)[at & (layout.ring_entries - 1)];
  }
  ppc_ring_tail& Tail(uint32_t i) const {
    return reinterpret_cast<ppc_ring_tail*>(consumer + sizeof(ppc_consumer))[i];
  }
};

bool Fail(const std::string& text) {
  std::printf("FAIL: %s\n", text.c_str());
  return false;
}

// Reads and touches one page here and there: with TRACE each is an event.
void Application(const std::string& path, uint64_t seed, std::atomic<bool>* stop,
                 std::atomic<uint64_t>* wrong) {
  Rng rng(seed);
  const uint64_t content = SeedOfName(path);
  while (!*stop) {
    const Fd fd(open(path.c_str(), O_RDONLY | O_CLOEXEC));
    struct stat status {};
    if (!fd || fstat(fd.get(), &status)) {
      ++*wrong;
      return;
    }
    const auto bytes = static_cast<uint64_t>(status.st_size);
    void* map = mmap(nullptr, bytes, PROT_READ, MAP_PRIVATE, fd.get(), 0);
    for (int i = 0; i < 200 && !*stop; ++i) {
      const uint64_t at = rng.Below(bytes / 4096) * 4096;
      if (CheckRead(fd.get(), content, at, 64) != Verdict::kRight) ++*wrong;
      if (CheckMapped(static_cast<std::byte*>(map), content, at, 64) != Verdict::kRight) ++*wrong;
    }
    madvise(map, bytes, MADV_DONTNEED);
    munmap(map, bytes);
    if (rng.OneIn(20)) posix_fadvise(fd.get(), 0, 0, POSIX_FADV_DONTNEED);
  }
}

bool CheckRings(const Reader& reader, int device) {
  uint64_t queued = 0, dropped = 0;
  for (uint32_t i = 0; i < reader.layout.nr_rings; ++i) {
    const ppc_ring_head& head = reader.Head(i);
    queued += head.queued;
    dropped += head.dropped;
    if (head.head > reader.layout.ring_entries) return Fail("a full ring was written over");
    if (head.dropped && head.head != reader.layout.ring_entries) {
      return Fail("a ring dropped before it was full");
    }
    for (uint32_t at = 0; at < head.head; ++at) {
      const ppc_event& event = reader.Record(i, at);
      if (event.seq != at || event.kind < 1 || event.kind > 6) return Fail("a record is damaged");
    }
  }
  std::printf("storm queued=%lu dropped=%lu rings=%u entries=%u\n", queued, dropped,
              reader.layout.nr_rings, reader.layout.ring_entries);
  if (Counter(device, "events_queued") != queued || Counter(device, "events_dropped") != dropped) {
    return Fail("the counters are not what the rings say");
  }
  return dropped > 0 || Fail("nothing was dropped");
}

// After the loss: consume all, then on each CPU that lost something one more event, which must
// carry LOST and the gap.
bool CheckLoss(const Reader& reader, const std::string& path) {
  for (uint32_t ring = 0; ring < reader.layout.nr_rings; ++ring) {
    const ppc_ring_head before = reader.Head(ring);
    std::atomic_ref<uint32_t>(reader.Tail(ring).tail).store(before.head, std::memory_order_release);
    cpu_set_t cpus;
    CPU_ZERO(&cpus);
    CPU_SET(ring, &cpus);
    // A possible CPU that is not there has lost nothing.
    if (before.dropped == 0 || sched_setaffinity(0, sizeof(cpus), &cpus)) continue;
    const Fd fd(open(path.c_str(), O_RDONLY | O_CLOEXEC));
    if (reader.Head(ring).head == before.head) return Fail("no event after the storm");
    const ppc_event& event = reader.Record(ring, before.head);
    if (!(event.flags & PPC_EVF_LOST)) return Fail("a loss was not told");
    if (event.seq != before.head + before.dropped) {
      return Fail("the gap in the sequence is not what was dropped");
    }
  }
  cpu_set_t all;
  std::memset(&all, 0xff, sizeof(all));
  return sched_setaffinity(0, sizeof(all), &all) == 0 || Fail("sched_setaffinity");
}

}  // namespace

int Storm(const Words& words) {
  const std::string mnt = words.TextOption("mnt");
  const int device = DeviceOf(mnt);
  const std::string path = "/dev/ppc" + std::to_string(device);
  const uint64_t events = words.Option("events", 300000);
  std::atomic<bool> stop{false};
  std::atomic<uint64_t> wrong{0};
  CatchSigbus();
  auto reader = std::make_unique<Reader>();
  if (!reader->Attach(path, 15, 600000)) return Fail("attaching"), 1;
  auto applications = [&] {
    std::vector<std::jthread> threads;
    for (uint64_t i = 0; i < words.Option("threads", 3); ++i) {
      threads.emplace_back(Application, mnt + "/a" + std::to_string(i), i, &stop, &wrong);
    }
    return threads;
  };
  {
    const auto threads = applications();
    auto told = [&] {
      return Counter(device, "events_queued") + Counter(device, "events_dropped");
    };
    uint64_t last = 0;
    // Not one more in a minute: they are lost.
    for (int still = 0; still < 600 && told() < events && !wrong; ++still) {
      usleep(100000);
      if (std::exchange(last, told()) != last) still = 0;
    }
    stop = true;
    if (told() < events && !wrong)
      return Fail("events are neither queued nor counted as dropped"), 1;
  }
  bool good = CheckRings(*reader, device) && CheckLoss(*reader, mnt + "/a0");

  // A lease of a tenth of a second, still without a consumer.
  reader.reset();
  for (int round = 1; good && round <= 10; ++round) {
    Reader stuck;
    const uint64_t expiries = Counter(device, "lease_expiries");
    if (!stuck.Attach(path, 15, 100)) {
      good = Fail(std::string("attaching again: ") + strerror(errno));
      break;
    }
    stop = false;
    const auto threads = applications();
    for (int i = 0; i < 600 && Counter(device, "lease_expiries") == expiries; ++i) usleep(100000);
    stop = true;
    if (Counter(device, "lease_expiries") == expiries) good = Fail("the lease did not run out");
  }
  if (wrong) good = Fail(std::to_string(wrong) + " wrong pieces");
  if (good) std::printf("storm expiries=10\n");
  return good ? 0 : 1;
}

}  // namespace ppc::attack
