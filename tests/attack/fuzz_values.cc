// SPDX-License-Identifier: Apache-2.0
// The fuzzer's random values, and what it holds an answer against.
#include <sys/ioctl.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "fuzzer.h"

namespace ppc::attack {

uint64_t Fuzzer::Number() {
  switch (rng_.Below(8)) {
    case 0:
      return rng_.Next();
    case 1:
      return rng_.Of({0, 1, 7, 8, 4095, 4096, 4097, 1U << 20, 0x7fffffff, 0x80000000, 0xffffffff,
                      1ULL << 32, 1ULL << 40, (1ULL << 40) + 1, 0x7fffffffffffffff,
                      0x7ffffffffffff000, 0x8000000000000000, 0xfffffffffffff000, ~0ULL});
    case 2:
      return target_->bytes + rng_.Below(3) * 4096 - 4096;
    default:
      return rng_.Below(target_->bytes / 4096 + 1) * 4096 + (rng_.OneIn(4) ? rng_.Below(4096) : 0);
  }
}

uint64_t Fuzzer::FileId() {
  if (rng_.OneIn(16)) return rng_.Of({0, ~0ULL, rng_.Next(), rng_.Below(4096)});
  return target_->ids[rng_.Below(target_->ids.size())];
}

uint64_t Fuzzer::Pointer(char* good) {
  if (!rng_.OneIn(12)) return reinterpret_cast<uintptr_t>(good);
  return rng_.Of({0, 1, reinterpret_cast<uintptr_t>(readonly_),
                  reinterpret_cast<uintptr_t>(argument_ + kArgument - rng_.Below(64)),
                  reinterpret_cast<uintptr_t>(argument_ + kArgument), 0xffff888000000000,
                  0xffffffff81000000, 0x00007ffffffff000, rng_.Next()});
}

int Fuzzer::Count(long result) {
  const int error = result < 0 ? errno : 0;
  if (error < 200) ++target_->by_errno[error];
  return error;
}

int Fuzzer::Call(unsigned long request, void* arg, std::initializer_list<int> allowed) {
  const bool bad = rng_.OneIn(24);
  const uint64_t pointer =
      bad ? Pointer(static_cast<char*>(arg)) : reinterpret_cast<uintptr_t>(arg);
  const int error = Count(ioctl(AnySlot().fd.get(), request, pointer));
  if (error && !(bad && error == EFAULT) &&
      std::find(allowed.begin(), allowed.end(), error) == allowed.end()) {
    target_->Fail("ioctl " + std::to_string(_IOC_NR(request)) + " gave " + strerrorname_np(error));
  }
  // A bad pointer may have been a good one; then nothing is in arg.
  return bad ? EFAULT : error;
}

}  // namespace ppc::attack
