// SPDX-License-Identifier: Apache-2.0
// Device commands of ppcdev.
#include "device.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>

namespace ppc::test {

namespace {

int Call(int fd, unsigned long request, void* argument) {
  return ioctl(fd, request, argument) < 0 ? errno : 0;
}

const char* KindName(unsigned kind) {
  static const char* const kNames[] = {"none",   "miss_read", "miss_fault", "progress",
                                       "access", "open",      "close"};
  return kind < sizeof(kNames) / sizeof(kNames[0]) ? kNames[kind] : "unknown";
}

std::string FlagNames(unsigned flags) {
  static const char* const kNames[] = {"not_user", "write", "hit", "direct", "lost", "mmap"};
  std::string text;
  for (unsigned i = 0; i < 6; ++i) {
    if (flags & (1U << i)) text += (text.empty() ? "" : ",") + std::string(kNames[i]);
  }
  return text.empty() ? "-" : text;
}

void PrintEvent(const ppc_event& e) {
  std::printf(
      "event kind=%s file=%llu open=%u off=%llu len=%u flags=%s tgid=%d tid=%d cpu=%u "
      "seq=%u cgroup=%llu start=%llu time=%llu\n",
      KindName(e.kind), static_cast<unsigned long long>(e.file_id), e.open_id,
      static_cast<unsigned long long>(e.offset), e.length, FlagNames(e.flags).c_str(), e.tgid,
      e.tid, e.cpu, e.seq, static_cast<unsigned long long>(e.cgroup_id),
      static_cast<unsigned long long>(e.start_ns), static_cast<unsigned long long>(e.time_ns));
}

}  // namespace

Device::~Device() {
  Unmap();
  close(fd_);
}

Outcome Device::Run(const Words& words, bool* known) {
  const std::string& verb = words.verb();
  *known = true;
  if (verb == "attach") return Attach(words);
  if (verb == "detach") return Call(fd_, PPC_IOC_DETACH, nullptr);
  if (verb == "flush") return Call(fd_, PPC_IOC_FLUSH, nullptr);
  if (verb == "info") return Info();
  if (verb == "lookup") return Lookup(words);
  if (verb == "id") return file_id_ = words.Number(1), 0;
  if (verb == "name") return Name(words);
  if (verb == "load") return Load(words);
  if (verb == "cancel") return Cancel(words);
  if (verb == "evict") return Evict(words);
  if (verb == "resident") return Resident(words);
  if (verb == "charge") return Charge(words);
  if (verb == "filemode") return FileMode(words);
  if (verb == "events" || verb == "counts" || verb == "drop") return Events(words);
  if (verb == "poll") return Poll(words);
  if (verb == "consume") return Consume(words);
  if (verb == "scribble") return Scribble(words);
  if (verb == "ioctl") return RawIoctl(words);
  if (verb == "write_rings") return WriteRings();
  *known = false;
  return 0;
}

Outcome Device::Attach(const Words& words) {
  ppc_attach attach{};
  if (words.Has("managed")) attach.flags |= PPC_ATTACH_MANAGED_RA;
  if (words.Has("beacon")) attach.flags |= PPC_ATTACH_BEACON;
  if (words.Has("trace")) attach.flags |= PPC_ATTACH_TRACE;
  if (words.Has("openclose")) attach.flags |= PPC_ATTACH_OPENCLOSE;
  attach.flags |= static_cast<uint32_t>(words.Option("flags"));
  attach.lease_ms = static_cast<uint32_t>(words.Option("lease", 60000));
  attach.window_bytes = static_cast<uint32_t>(words.Option("window"));
  attach.beacon_bytes = static_cast<uint32_t>(words.Option("beacon"));
  attach.reserved[1] = words.Option("reserved");
  std::string label = words.TextOption("label");
  if (label.empty()) label = "test";
  label.copy(attach.label, sizeof(attach.label));
  const int error = Call(fd_, PPC_IOC_ATTACH, &attach);
  if (error) return error;
  std::printf("attach rings=%u entries=%u stride=%llu consumer=%llu\n", attach.nr_rings,
              attach.ring_entries, static_cast<unsigned long long>(attach.ring_stride),
              static_cast<unsigned long long>(attach.consumer_bytes));
  return rings_ ? 0 : Map(attach);
}

Outcome Device::Map(const ppc_attach& attach) {
  layout_ = attach;
  void* rings = mmap(nullptr, attach.nr_rings * attach.ring_stride, PROT_READ, MAP_SHARED, fd_,
                     static_cast<off_t>(PPC_MMAP_RINGS));
  if (rings == MAP_FAILED) return errno;
  rings_ = static_cast<char*>(rings);
  void* consumer = mmap(nullptr, attach.consumer_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd_,
                        static_cast<off_t>(PPC_MMAP_CONSUMER));
  if (consumer == MAP_FAILED) return errno;
  consumer_ = static_cast<char*>(consumer);
  return 0;
}

void Device::Unmap() {
  if (rings_) munmap(rings_, layout_.nr_rings * layout_.ring_stride);
  if (consumer_) munmap(consumer_, layout_.consumer_bytes);
  rings_ = consumer_ = nullptr;
}

Outcome Device::Info() {
  ppc_info info{};
  const int error = Call(fd_, PPC_IOC_INFO, &info);
  if (error) return error;
  std::printf(
      "info version=%u caps=%u state=%u page=%u dev=%u:%u window=%u beacon=%u lease=%u "
      "open=%u queued=%llu dropped=%llu coalesced=%llu wakeups=%llu expiries=%llu\n",
      info.version, info.caps, info.state, info.page_bytes, info.dev_major, info.dev_minor,
      info.window_bytes, info.beacon_bytes, info.lease_ms, info.nr_open,
      static_cast<unsigned long long>(info.events_queued),
      static_cast<unsigned long long>(info.events_dropped),
      static_cast<unsigned long long>(info.events_coalesced),
      static_cast<unsigned long long>(info.wakeups),
      static_cast<unsigned long long>(info.lease_expiries));
  return 0;
}

Outcome Device::Lookup(const Words& words) {
  ppc_file file{};
  std::string name = words.Text(1);
  file.name = reinterpret_cast<uintptr_t>(name.c_str());
  file.name_bytes = static_cast<uint32_t>(words.Option("bytes", name.size() + 1));
  file.flags = static_cast<uint32_t>(words.Option("flags"));
  file.reserved[1] = words.Option("reserved");
  const int error = Call(fd_, PPC_IOC_LOOKUP, &file);
  if (error) return error;
  file_id_ = file.file_id;
  std::printf("lookup id=%llu size=%llu ino=%llu dev=%u:%u mtime=%lld.%09u gen=%u\n",
              static_cast<unsigned long long>(file.file_id),
              static_cast<unsigned long long>(file.size), static_cast<unsigned long long>(file.ino),
              file.dev_major, file.dev_minor, static_cast<long long>(file.mtime_sec),
              file.mtime_nsec, file.generation);
  return 0;
}

Outcome Device::Name(const Words& words) {
  ppc_file file{};
  char name[PPC_NAME_MAX_BYTES] = "";
  file.file_id = file_id_;
  file.name = reinterpret_cast<uintptr_t>(name);
  file.name_bytes = sizeof(name);
  file.reserved[1] = words.Option("reserved");
  const int error = Call(fd_, PPC_IOC_FILE, &file);
  if (error) return error;
  std::printf("name name=%s size=%llu ino=%llu\n", name, static_cast<unsigned long long>(file.size),
              static_cast<unsigned long long>(file.ino));
  return 0;
}

Outcome Device::Load(const Words& words) {
  ppc_load load{};
  load.file_id = file_id_;
  load.offset = words.Number(1);
  load.length = words.Number(2, 1ULL << 40);
  load.flags = words.Has("wait") ? PPC_LOAD_WAIT : 0;
  load.flags |= static_cast<uint32_t>(words.Option("flags"));
  load.charge = words.Has("charged") ? charge_ : static_cast<uint32_t>(words.Option("charge"));
  load.cancel_slot = static_cast<uint32_t>(words.Option("slot", PPC_CANCEL_NONE));
  load.generation = words.Option("gen");
  load.pad = static_cast<uint32_t>(words.Option("pad"));
  load.pad2 = static_cast<uint32_t>(words.Option("pad2"));
  load.reserved[0] = words.Option("reserved");
  const int error = Call(fd_, PPC_IOC_LOAD, &load);
  if (error) return error;
  std::printf(
      "load loaded=%llu submitted=%llu resident=%llu failed=%llu done=%llu stop=%u\n",
      static_cast<unsigned long long>(load.loaded), static_cast<unsigned long long>(load.submitted),
      static_cast<unsigned long long>(load.resident), static_cast<unsigned long long>(load.failed),
      static_cast<unsigned long long>(load.done), load.stop);
  return 0;
}

Outcome Device::Cancel(const Words& words) {
  ppc_cancel cancel{};
  cancel.slot = static_cast<uint32_t>(words.Number(1));
  cancel.generation = words.Number(2);
  cancel.pad = static_cast<uint32_t>(words.Option("pad"));
  return Call(fd_, PPC_IOC_CANCEL, &cancel);
}

Outcome Device::Evict(const Words& words) {
  ppc_evict evict{};
  evict.file_id = file_id_;
  evict.offset = words.Number(1);
  evict.length = words.Number(2, 1ULL << 40);
  if (words.Has("unmap")) evict.flags |= PPC_EVICT_UNMAP;
  if (words.Has("locked")) evict.flags |= PPC_EVICT_EVEN_LOCKED;
  if (words.Has("drain")) evict.flags |= PPC_EVICT_DRAIN;
  evict.flags |= static_cast<uint32_t>(words.Option("flags"));
  evict.pad = static_cast<uint32_t>(words.Option("pad"));
  evict.reserved[1] = words.Option("reserved");
  const int error = Call(fd_, PPC_IOC_EVICT, &evict);
  if (error) return error;
  std::printf(
      "evict asked=%llu dropped=%llu mapped=%llu dirty=%llu locked=%llu busy=%llu\n",
      static_cast<unsigned long long>(evict.asked), static_cast<unsigned long long>(evict.dropped),
      static_cast<unsigned long long>(evict.mapped), static_cast<unsigned long long>(evict.dirty),
      static_cast<unsigned long long>(evict.locked), static_cast<unsigned long long>(evict.busy));
  return 0;
}

Outcome Device::Resident(const Words& words) {
  ppc_resident resident{};
  std::vector<unsigned char> bitmap;
  resident.file_id = file_id_;
  resident.offset = words.Number(1);
  resident.length = words.Number(2);
  if (const uint64_t pages = words.Option("bitmap")) {
    bitmap.resize((pages + 7) / 8);
    resident.bitmap = reinterpret_cast<uintptr_t>(bitmap.data());
    resident.bitmap_bytes = bitmap.size();
  }
  const int error = Call(fd_, PPC_IOC_RESIDENT, &resident);
  if (error) return error;
  std::printf("resident resident=%llu dirty=%llu mapped=%llu node0=%llu node1=%llu",
              static_cast<unsigned long long>(resident.resident),
              static_cast<unsigned long long>(resident.dirty),
              static_cast<unsigned long long>(resident.mapped),
              static_cast<unsigned long long>(resident.node[0]),
              static_cast<unsigned long long>(resident.node[1]));
  if (!bitmap.empty()) std::printf(" bits=");
  for (const unsigned char byte : bitmap) std::printf("%02x", byte);
  std::printf("\n");
  return 0;
}

Outcome Device::Charge(const Words& words) {
  ppc_charge charge{};
  charge.flags = static_cast<uint32_t>(words.Option("flags"));
  charge.pad = static_cast<uint32_t>(words.Option("pad"));
  if (words.Text(1) == "release") {
    charge.flags = PPC_CHARGE_RELEASE;
    charge.handle = static_cast<uint32_t>(words.Number(2, charge_));
    return Call(fd_, PPC_IOC_CHARGE, &charge);
  }
  charge.cgroup_fd = open(words.Text(1).c_str(), O_RDONLY | O_CLOEXEC);
  if (charge.cgroup_fd < 0) return errno;
  if (words.Has("removed")) rmdir(words.Text(1).c_str());
  const int error = Call(fd_, PPC_IOC_CHARGE, &charge);
  close(charge.cgroup_fd);
  if (error) return error;
  charge_ = charge.handle;
  std::printf("charge handle=%u\n", charge.handle);
  return 0;
}

Outcome Device::FileMode(const Words& words) {
  ppc_file_mode mode{};
  mode.file_id = file_id_;
  mode.mode = words.Text(1) == "native" ? PPC_FILE_NATIVE : PPC_FILE_POLICY;
  if (words.Has("bad")) mode.mode = 7;
  mode.pad = static_cast<uint32_t>(words.Option("pad"));
  return Call(fd_, PPC_IOC_FILE_MODE, &mode);
}

std::vector<ppc_event> Device::Drain() {
  std::vector<ppc_event> events;
  auto* tails = reinterpret_cast<ppc_ring_tail*>(consumer_ + sizeof(ppc_consumer));
  for (uint32_t i = 0; i < layout_.nr_rings; ++i) {
    char* ring = rings_ + i * layout_.ring_stride;
    auto* head = reinterpret_cast<ppc_ring_head*>(ring);
    auto* records = reinterpret_cast<ppc_event*>(ring + sysconf(_SC_PAGESIZE));
    uint32_t tail = tails[i].tail;
    const uint32_t end = std::atomic_ref<uint32_t>(head->head).load(std::memory_order_acquire);
    for (; tail != end && events.size() < (1U << 22); ++tail) {
      events.push_back(records[tail & (layout_.ring_entries - 1)]);
    }
    std::atomic_ref<uint32_t>(tails[i].tail).store(tail, std::memory_order_release);
  }
  return events;
}

// events: print and consume all; counts: one line of totals; drop: silently.
Outcome Device::Events(const Words& words) {
  if (!rings_) return ENOTCONN;
  std::vector<ppc_event> events = Drain();
  // A reader that moved to another CPU meanwhile has events in two rings.
  std::ranges::stable_sort(events, {}, &ppc_event::time_ns);
  uint64_t counts[7] = {}, bytes[7] = {}, lost = 0, not_user = 0, hit = 0;
  for (const ppc_event& event : events) {
    if (words.verb() == "events") PrintEvent(event);
    if (event.kind < 7) {
      counts[event.kind]++;
      bytes[event.kind] += event.length;
    }
    lost += (event.flags & PPC_EVF_LOST) != 0;
    not_user += (event.flags & PPC_EVF_NOT_USER) != 0;
    hit += (event.flags & PPC_EVF_HIT) != 0;
  }
  if (words.verb() == "drop") return 0;
  std::printf("counts all=%zu lost=%llu not_user=%llu hit=%llu", events.size(),
              static_cast<unsigned long long>(lost), static_cast<unsigned long long>(not_user),
              static_cast<unsigned long long>(hit));
  for (unsigned kind = 1; kind < 7; ++kind) {
    std::printf(" %s=%llu %s_bytes=%llu", KindName(kind),
                static_cast<unsigned long long>(counts[kind]), KindName(kind),
                static_cast<unsigned long long>(bytes[kind]));
  }
  std::printf("\n");
  return 0;
}

// poll MS [sleepy]: sleepy announces it in need_wakeup first.
Outcome Device::Poll(const Words& words) {
  if (words.Has("sleepy") && consumer_) {
    auto* consumer = reinterpret_cast<ppc_consumer*>(consumer_);
    std::atomic_ref<uint32_t>(consumer->need_wakeup).store(1, std::memory_order_seq_cst);
  }
  pollfd request{fd_, POLLIN, 0};
  const int ready = poll(&request, 1, static_cast<int>(words.Number(1)));
  if (ready < 0) return errno;
  std::printf("poll ready=%d in=%d err=%d hup=%d\n", ready, (request.revents & POLLIN) != 0,
              (request.revents & POLLERR) != 0, (request.revents & POLLHUP) != 0);
  return 0;
}

// consume MS: a reader that sleeps whenever it has nothing to do, until nothing came for MS.
Outcome Device::Consume(const Words& words) {
  if (!rings_) return ENOTCONN;
  auto* consumer = reinterpret_cast<ppc_consumer*>(consumer_);
  const std::atomic_ref<uint32_t> need_wakeup(consumer->need_wakeup);
  uint64_t events = 0, sleeps = 0;
  for (;;) {
    events += Drain().size();
    need_wakeup.store(1, std::memory_order_seq_cst);
    pollfd request{fd_, POLLIN, 0};
    const int ready = poll(&request, 1, static_cast<int>(words.Number(1)));
    need_wakeup.store(0, std::memory_order_seq_cst);
    if (ready < 0) return errno;
    if (ready == 0) break;
    ++sleeps;
  }
  std::printf("consume events=%llu sleeps=%llu\n", static_cast<unsigned long long>(events),
              static_cast<unsigned long long>(sleeps));
  return 0;
}

// scribble VALUE: fills the whole consumer area with it.
Outcome Device::Scribble(const Words& words) {
  if (!consumer_) return ENOTCONN;
  auto* data = reinterpret_cast<uint32_t*>(consumer_);
  for (uint64_t i = 0; i < layout_.consumer_bytes / sizeof(uint32_t); ++i) {
    data[i] = static_cast<uint32_t>(words.Number(1)) * static_cast<uint32_t>(i + 1);
  }
  return 0;
}

// ioctl NR SIZE DIRECTION: an arbitrary request with a zeroed argument; "null" passes NULL.
Outcome Device::RawIoctl(const Words& words) {
  std::vector<char> argument(16384);
  const unsigned long request =
      _IOC(static_cast<unsigned>(words.Number(3)), PPC_IOC_TYPE,
           static_cast<unsigned>(words.Number(1)), static_cast<unsigned>(words.Number(2)));
  return Call(fd_, request, words.Has("null") ? nullptr : argument.data());
}

// Must fail: records are read-only, now and by mprotect.
Outcome Device::WriteRings() {
  const size_t page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  void* map = mmap(nullptr, page, PROT_READ | PROT_WRITE, MAP_SHARED, fd_, 0);
  if (map != MAP_FAILED) return munmap(map, page), 0;
  if (mprotect(rings_, page, PROT_READ | PROT_WRITE) == 0) return 0;
  return errno;
}

}  // namespace ppc::test
