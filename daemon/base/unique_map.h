// SPDX-License-Identifier: Apache-2.0
// Owns a mapping of memory that unmaps itself.
#ifndef PPC_DAEMON_BASE_UNIQUE_MAP_H_
#define PPC_DAEMON_BASE_UNIQUE_MAP_H_

#include <sys/mman.h>

#include <cstddef>
#include <utility>

namespace ppc {

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

}  // namespace ppc

#endif  // PPC_DAEMON_BASE_UNIQUE_MAP_H_
