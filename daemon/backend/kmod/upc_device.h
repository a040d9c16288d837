// SPDX-License-Identifier: Apache-2.0
// Owns one opened /dev/ppcN: ioctls, and the event rings after Attach.  With
// daemon/backend the only user of the kernel interface ppc/uapi.h.
// Threads: Attach, Drain and Sleep by one thread; the ioctls by any.
// Paper: section 3.1 (UPC).
#ifndef PPC_DAEMON_BACKEND_KMOD_UPC_DEVICE_H_
#define PPC_DAEMON_BACKEND_KMOD_UPC_DEVICE_H_

#include <poll.h>
#include <ppc/uapi.h>
#include <sys/mman.h>
#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <utility>

#include "daemon/base/result.h"
#include "daemon/base/unique_fd.h"

namespace ppc {

// Owns a mapping of memory that unmaps itself.
class UniqueMap {
 public:
  UniqueMap() = default;
  UniqueMap(void* address, size_t bytes) : address_(address), bytes_(bytes) {}
  UniqueMap(const UniqueMap&) = delete;
  UniqueMap& operator=(const UniqueMap&) = delete;
  UniqueMap(UniqueMap&& other) noexcept { *this = std::move(other); }
  UniqueMap& operator=(UniqueMap&& other) noexcept {
    if (this == &other) return *this;
    Reset();
    address_ = std::exchange(other.address_, nullptr);
    bytes_ = std::exchange(other.bytes_, 0);
    return *this;
  }
  ~UniqueMap() { Reset(); }
  void Reset() {
    if (address_ != nullptr) munmap(address_, bytes_);
    address_ = nullptr;
  }
  bool IsValid() const { return address_ != nullptr; }
  char* Get() const { return static_cast<char*>(address_); }

 private:
  void* address_ = nullptr;
  size_t bytes_ = 0;
};

// A ppc mount.
struct UpcMount {
  std::string device;  // "/dev/ppcN"
  dev_t st_dev = 0;    // of its files
};

// What is at the mount point.  ENODEV: not a ppc mount.
Result<UpcMount> FindUpcMount(const std::string& mount, const std::string& sysroot = "");

class UpcDevice {
 public:
  static Result<UpcDevice> Open(const std::string& device_path);

  Result<ppc_info> Info() const;
  Result<ppc_attach> Attach(ppc_attach request);
  void Detach();
  // Accesses that the module gathers are queued at once.
  void Flush();

  // Copies events out of the rings, each ring's in order; returns how many.
  size_t Drain(std::span<ppc_event> batch);
  bool HasEvents() const;

  enum class Woken { kEvents, kOther, kTimeout, kHangUp };
  // With `nap` only `others` and the timeout end the sleep.
  Woken Sleep(uint64_t timeout_ns, bool nap, std::span<pollfd> others);

  // Issues an ioctl and retries EINTR; 0 or a positive errno.
  int Call(unsigned long request, void* argument) const;
  int fd() const { return fd_.Get(); }

 private:
  explicit UpcDevice(UniqueFd fd, std::string path) : fd_(std::move(fd)), path_(std::move(path)) {}
  Status MapRings(const ppc_attach& attached);
  const ppc_ring_head* Head(uint32_t ring) const;
  ppc_ring_tail* Tail(uint32_t ring) const;
  size_t DrainRing(uint32_t ring, std::span<ppc_event> batch);

  static constexpr size_t kMaxOthers = 15;

  UniqueFd fd_;
  std::string path_;
  UniqueMap rings_;
  UniqueMap consumer_;
  uint32_t nr_rings_ = 0;
  uint32_t ring_entries_ = 0;
  uint64_t ring_stride_ = 0;
  uint64_t head_bytes_ = 0;  // of a ring's head, which has a page of the kernel to itself
  uint32_t next_ring_ = 0;
};

}  // namespace ppc

#endif  // PPC_DAEMON_BACKEND_KMOD_UPC_DEVICE_H_
