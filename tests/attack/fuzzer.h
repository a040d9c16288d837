// SPDX-License-Identifier: Apache-2.0
// One thread of the fuzzer: its descriptors of the device, its random values, one call after
// another.
#pragma once

#include <fcntl.h>
#include <sys/mman.h>

#include <array>
#include <atomic>
#include <cstdint>
#include <cstdio>
#include <initializer_list>
#include <mutex>
#include <string>
#include <vector>

#include "attack.h"

namespace ppc::attack {

struct Target {
  std::string device;
  std::string mnt;
  std::vector<std::string> files;  // names below mnt
  uint64_t bytes = 0;              // of each file
  std::atomic<int64_t> left{0};    // calls still to make
  std::atomic<bool> failed{false};
  std::atomic<uint64_t> by_errno[200] = {};
  std::array<std::atomic<uint64_t>, 64> ids{};  // file ids seen
  std::mutex mutex;                             // of standard output

  void Fail(const std::string& text) {
    const std::lock_guard lock(mutex);
    if (!failed.exchange(true)) std::printf("FAIL: %s\n", text.c_str());
  }
};

class Fuzzer {
 public:
  Fuzzer(Target* target, uint64_t seed);
  ~Fuzzer();
  Fuzzer(const Fuzzer&) = delete;
  Fuzzer& operator=(const Fuzzer&) = delete;

  // Makes calls until none is left to make.
  void Run();

 private:
  static constexpr unsigned kSlots = 3;      // descriptors of the device each thread has
  static constexpr size_t kArgument = 8192;  // a page to write to, then one that is not there

  struct Slot {
    Fd fd;
    char* consumer = nullptr;
    uint64_t consumer_bytes = 0;
    char* rings = nullptr;
    uint64_t rings_bytes = 0;

    void Unmap() {
      if (consumer) munmap(consumer, consumer_bytes);
      if (rings) munmap(rings, rings_bytes);
      consumer = rings = nullptr;
    }
  };

  // --- values (fuzz_values.cc)

  uint64_t Number();
  // Mostly small: a call over a whole file is worth a hundred others.
  uint64_t Length() { return rng_.OneIn(8) ? Number() : rng_.Below(33) * 4096 + rng_.Below(2); }
  uint32_t Flags(uint32_t known) {
    return static_cast<uint32_t>(rng_.OneIn(16) ? rng_.Next() : rng_.Next() & known);
  }
  uint64_t Mostly0() { return rng_.OneIn(32) ? rng_.Next() : 0; }
  uint64_t FileId();
  uint64_t Pointer(char* good);
  const std::string& File() { return target_->files[rng_.Below(target_->files.size())]; }
  Slot& AnySlot() { return slots_[rng_.Below(kSlots)]; }

  // --- answers (fuzz_values.cc)

  // Counts the answer; returns the errno, 0 for success.
  int Count(long result);
  // An ioctl whose answers are known.
  int Call(unsigned long request, void* arg, std::initializer_list<int> allowed);
  void Must(bool holds, const char* what) {
    if (!holds) target_->Fail(what);
  }

  // --- ioctls as the interface has them (fuzz_ioctls.cc)

  void Attach();
  char* Map(const Slot& slot, uint64_t bytes, int protection, uint64_t offset);
  void Load();
  void Evict();
  void Resident();
  void Lookup();
  void Name();
  void Small();

  // --- everything else (fuzz_wild.cc)

  void Reopen(unsigned index);
  void Scribble();
  void Wild();
  void DeviceMap();
  void Descriptor();
  void Application();

  void One();

  Target* target_;
  Rng rng_;
  std::vector<Slot> slots_;
  Fd cgroup_{open("/sys/fs/cgroup", O_RDONLY | O_DIRECTORY | O_CLOEXEC)};
  char* argument_ = nullptr;
  char* readonly_ = nullptr;
};

}  // namespace ppc::attack
