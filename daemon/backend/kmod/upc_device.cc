// SPDX-License-Identifier: Apache-2.0
#include "daemon/backend/kmod/upc_device.h"

#include <fcntl.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>

#include "daemon/base/clock.h"
#include "daemon/base/files.h"
#include "daemon/machine/proc_info.h"

namespace ppc {

Result<UpcMount> FindUpcMount(const std::string& mount, const std::string& sysroot) {
  struct stat st {};
  if (stat(mount.c_str(), &st) != 0) return PosixError("stat " + mount, errno);
  const std::string wanted =
      std::to_string(major(st.st_dev)) + ":" + std::to_string(minor(st.st_dev));
  const std::string base = UnderRoot(sysroot, "/sys/fs/ppc");
  if (access(base.c_str(), F_OK) != 0)
    return Error{ENODEV, base + " does not exist; load the module: modprobe ppc"};
  for (const int number : ListNumbers(base)) {
    const std::string name = std::to_string(number);
    const Result<std::string> dev = ReadLine(base + "/" + name + "/dev");
    if (dev && *dev == wanted) return UpcMount{"/dev/ppc" + name, st.st_dev};
  }
  return Error{ENODEV, mount + " is not a ppc mount; mount it first: mount -t ppc BASE " + mount};
}

Result<UpcDevice> UpcDevice::Open(const std::string& device_path) {
  UniqueFd fd(open(device_path.c_str(), O_RDWR | O_CLOEXEC));
  if (!fd.IsValid()) return PosixError("open " + device_path, errno);
  UpcDevice device(std::move(fd), device_path);
  const Result<ppc_info> info = device.Info();
  if (!info) return info.error();
  if (info->version != PPC_UAPI_VERSION) {
    return Error{EPROTO, device_path + " speaks interface version " +
                             std::to_string(info->version) + ", this program " +
                             std::to_string(PPC_UAPI_VERSION) +
                             "; install module and programs of the same release"};
  }
  device.head_bytes_ = info->page_bytes;
  return device;
}

int UpcDevice::Call(unsigned long request, void* argument) const {
  for (;;) {
    if (ioctl(fd_.Get(), request, argument) >= 0) return 0;
    if (errno != EINTR) return errno;
  }
}

Result<ppc_info> UpcDevice::Info() const {
  ppc_info info{};
  const int code = Call(PPC_IOC_INFO, &info);
  if (code != 0) return PosixError(path_ + ": INFO", code);
  return info;
}

Result<ppc_attach> UpcDevice::Attach(ppc_attach request) {
  const int code = Call(PPC_IOC_ATTACH, &request);
  if (code == EBUSY) {
    return Error{EBUSY, path_ + " has another event reader; remove its policy first"};
  }
  if (code != 0) return PosixError(path_ + ": ATTACH", code);
  if (!rings_.IsValid()) {
    Status mapped = MapRings(request);
    if (!mapped) {
      Detach();
      return mapped.error();
    }
  }
  return request;
}

Status UpcDevice::MapRings(const ppc_attach& attached) {
  const uint64_t needed = head_bytes_ + uint64_t{attached.ring_entries} * sizeof(ppc_event);
  const bool power_of_two =
      attached.ring_entries > 0 && (attached.ring_entries & (attached.ring_entries - 1)) == 0;
  if (!power_of_two || attached.ring_stride < needed || attached.nr_rings == 0) {
    return Error{EPROTO, path_ + ": ATTACH described impossible rings"};
  }
  const size_t ring_bytes = attached.nr_rings * attached.ring_stride;
  void* rings = mmap(nullptr, ring_bytes, PROT_READ, MAP_SHARED, fd_.Get(), PPC_MMAP_RINGS);
  if (rings == MAP_FAILED) return PosixError(path_ + ": map the rings", errno);
  rings_ = UniqueMap(rings, ring_bytes);
  void* consumer = mmap(nullptr, attached.consumer_bytes, PROT_READ | PROT_WRITE, MAP_SHARED,
                        fd_.Get(), PPC_MMAP_CONSUMER);
  if (consumer == MAP_FAILED) {
    rings_.Reset();
    return PosixError(path_ + ": map the consumer page", errno);
  }
  consumer_ = UniqueMap(consumer, attached.consumer_bytes);
  nr_rings_ = attached.nr_rings;
  ring_entries_ = attached.ring_entries;
  ring_stride_ = attached.ring_stride;
  return Ok();
}

void UpcDevice::Flush() { (void)Call(PPC_IOC_FLUSH, nullptr); }

void UpcDevice::Detach() { (void)Call(PPC_IOC_DETACH, nullptr); }

const ppc_ring_head* UpcDevice::Head(uint32_t ring) const {
  return reinterpret_cast<const ppc_ring_head*>(rings_.Get() + ring * ring_stride_);
}

ppc_ring_tail* UpcDevice::Tail(uint32_t ring) const {
  return reinterpret_cast<ppc_ring_tail*>(consumer_.Get() + sizeof(ppc_consumer)) + ring;
}

bool UpcDevice::HasEvents() const {
  for (uint32_t ring = 0; ring < nr_rings_; ++ring) {
    if (__atomic_load_n(&Head(ring)->head, __ATOMIC_ACQUIRE) != Tail(ring)->tail) return true;
  }
  return false;
}

size_t UpcDevice::DrainRing(uint32_t ring, std::span<ppc_event> batch) {
  // Pairs with the module's store-release of head after it filled the record.
  const uint32_t head = __atomic_load_n(&Head(ring)->head, __ATOMIC_ACQUIRE);
  uint32_t tail = Tail(ring)->tail;
  const auto* records =
      reinterpret_cast<const ppc_event*>(rings_.Get() + ring * ring_stride_ + head_bytes_);
  size_t taken = 0;
  while (tail != head && taken < batch.size()) {
    std::memcpy(&batch[taken++], &records[tail & (ring_entries_ - 1)], sizeof(ppc_event));
    ++tail;
  }
  // The module may overwrite the records once it sees the new tail.
  if (taken > 0) __atomic_store_n(&Tail(ring)->tail, tail, __ATOMIC_RELEASE);
  return taken;
}

size_t UpcDevice::Drain(std::span<ppc_event> batch) {
  size_t total = 0;
  // Starts at another ring each time, so that a busy CPU cannot starve the others.
  for (uint32_t i = 0; i < nr_rings_ && total < batch.size(); ++i) {
    total += DrainRing((next_ring_ + i) % nr_rings_, batch.subspan(total));
  }
  if (nr_rings_ > 0) next_ring_ = (next_ring_ + 1) % nr_rings_;
  return total;
}

UpcDevice::Woken UpcDevice::Sleep(uint64_t timeout_ns, bool nap, std::span<pollfd> others) {
  auto* consumer = reinterpret_cast<ppc_consumer*>(consumer_.Get());
  if (!nap && consumer != nullptr) {
    // Pairs with the module: it queues, then looks at need_wakeup; we set it, then look at heads.
    __atomic_store_n(&consumer->need_wakeup, 1, __ATOMIC_SEQ_CST);
    if (HasEvents()) {
      __atomic_store_n(&consumer->need_wakeup, 0, __ATOMIC_SEQ_CST);
      return Woken::kEvents;
    }
  }
  pollfd fds[kMaxOthers + 1];
  const size_t count = std::min(others.size(), kMaxOthers);
  std::copy_n(others.begin(), count, fds);
  fds[count] = pollfd{fd_.Get(), static_cast<short>(nap ? 0 : POLLIN), 0};
  const timespec timeout{static_cast<time_t>(timeout_ns / kNsPerSec),
                         static_cast<long>(timeout_ns % kNsPerSec)};
  const int ready = ppoll(fds, count + 1, &timeout, nullptr);
  if (!nap && consumer != nullptr) __atomic_store_n(&consumer->need_wakeup, 0, __ATOMIC_SEQ_CST);
  if (ready <= 0) return Woken::kTimeout;
  bool other = false;
  for (size_t i = 0; i < count; ++i) {
    others[i].revents = fds[i].revents;
    other |= fds[i].revents != 0;
  }
  if ((fds[count].revents & (POLLHUP | POLLERR | POLLNVAL)) != 0) return Woken::kHangUp;
  if ((fds[count].revents & POLLIN) != 0) return Woken::kEvents;
  return other ? Woken::kOther : Woken::kTimeout;
}

}  // namespace ppc
