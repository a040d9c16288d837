// SPDX-License-Identifier: Apache-2.0
// Which places of the module the calling thread came to, where the kernel has KCOV.
#pragma once

#include <fcntl.h>
#include <sys/ioctl.h>
#include <sys/mman.h>

#include <atomic>
#include <cstdint>
#include <mutex>
#include <set>

#include "attack.h"

namespace ppc::attack {

class Coverage {
 public:
  Coverage() : fd_(open("/sys/kernel/debug/kcov", O_RDWR | O_CLOEXEC)) {
    if (!fd_ || ioctl(fd_.get(), kInit, kWords)) return;
    void* area = mmap(nullptr, kWords * 8, PROT_READ | PROT_WRITE, MAP_SHARED, fd_.get(), 0);
    if (area == MAP_FAILED) return;
    area_ = static_cast<uint64_t*>(area);
    ioctl(fd_.get(), kEnable, 0);
  }
  ~Coverage() {
    if (!area_) return;
    ioctl(fd_.get(), kDisable, 0);
    Collect();
    munmap(area_, kWords * 8);
  }
  Coverage(const Coverage&) = delete;
  Coverage& operator=(const Coverage&) = delete;

  // Takes over what was recorded; the buffer is empty again.
  void Collect() {
    if (!area_) return;
    const uint64_t n = std::atomic_ref<uint64_t>(area_[0]).load(std::memory_order_relaxed);
    const std::lock_guard lock(mutex_);
    for (uint64_t i = 1; i <= n && i < kWords; ++i) places_.insert(area_[i]);
    std::atomic_ref<uint64_t>(area_[0]).store(0, std::memory_order_relaxed);
  }
  static size_t Total() { return places_.size(); }

 private:
  static constexpr uint64_t kWords = 1 << 18;
  static constexpr unsigned long kInit = _IOR('c', 1, unsigned long);
  static constexpr unsigned long kEnable = _IO('c', 100);
  static constexpr unsigned long kDisable = _IO('c', 101);

  Fd fd_;
  uint64_t* area_ = nullptr;
  static inline std::mutex mutex_;
  static inline std::set<uint64_t> places_;
};

}  // namespace ppc::attack
