// SPDX-License-Identifier: Apache-2.0
// The CPUs of the simulated machine, see kernel.h.
#include <algorithm>

#include "sim/kernel.h"

namespace ppc::sim {

uint64_t Cpus::Reserve(uint64_t ns) {
  auto cpu = std::min_element(free_ns_.begin(), free_ns_.end());
  *cpu = std::max(*cpu, scheduler_->NowNs()) + ns;
  return *cpu;
}

void Cpus::Settle(Thread* thread) {
  if (thread->debt_ns != 0) {
    thread->busy_until_ns =
        std::max(thread->busy_until_ns, Reserve(std::exchange(thread->debt_ns, 0)));
  }
  while (scheduler_->NowNs() < thread->busy_until_ns) {
    scheduler_->SleepUntil(thread->busy_until_ns);
  }
}

void Cpus::Use(uint64_t ns, Thread* thread) {
  thread->debt_ns += ns;
  if (thread->debt_ns >= kSliceNs || thread->busy_until_ns > scheduler_->NowNs()) Settle(thread);
}

}  // namespace ppc::sim
