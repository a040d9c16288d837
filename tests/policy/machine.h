// SPDX-License-Identifier: Apache-2.0
// The simulator's machine (sim/kernel.h) for policies, and threads that read on it.  Computing
// takes no time there: readers are as fast as their device.  Threads: one.
#ifndef TESTS_POLICY_MACHINE_H_
#define TESTS_POLICY_MACHINE_H_

#include <cstdint>
#include <map>
#include <memory>
#include <utility>

#include "sim/kernel.h"

namespace ppc::test {

constexpr uint64_t kMsNs = 1'000'000;
constexpr uint64_t kStartNs = sim::Scheduler::kStartNs;

struct MachineOptions {
  uint64_t disk_bytes_per_ms = 200 << 10;
  uint64_t demand_latency_ms = 4;
  uint64_t limit = 0;  // of page cache and `other` together; 0 = 64 GiB
  uint64_t other = 0;
};

struct Machine {
  explicit Machine(const MachineOptions& options)
      : disk(scheduler.get(), {.bytes_per_s = static_cast<double>(options.disk_bytes_per_ms) * 1e3,
                               .latency_ns = options.demand_latency_ms * kMsNs,
                               .burst_ns = kMsNs}),
        cache(sim::MemoryOptions{.limit_bytes = options.limit, .other_bytes = options.other}),
        kernel(scheduler.get(), &disk, &cache, {.cpu = {16, 0, 0, 0, 0, 0, 0}}) {}
  // Fibers that wait are unwound while the rest is there.
  ~Machine() { scheduler.reset(); }
  Machine(const Machine&) = delete;
  Machine& operator=(const Machine&) = delete;
  void RunTo(uint64_t time_ns) {
    scheduler->At(time_ns, [] {});  // else the clock stands at the last event
    (void)scheduler->RunUntil([] { return false; }, time_ns);
  }

  std::unique_ptr<sim::Scheduler> scheduler = std::make_unique<sim::Scheduler>();
  sim::Disk disk;
  sim::PageCache cache;
  sim::Kernel kernel;
  std::map<int, uint32_t> slots;  // of processes, by PID
};

// A thread of a process, and its mappings: they end with it.
struct ReaderTask {
  ReaderTask(const std::shared_ptr<Machine>& on, int pid, int tid) : machine(on) {
    const auto next = static_cast<uint32_t>(on->slots.size() % sim::kMaxProcesses);
    const uint32_t slot = on->slots.try_emplace(pid, next).first->second;
    process = {.pid = pid, .slot = slot, .start_ns = 5, .payer = sim::kServicePays};
    thread = {.process = &process, .tid = tid};
  }
  ReaderTask(const ReaderTask&) = delete;
  ReaderTask& operator=(const ReaderTask&) = delete;
  ~ReaderTask() {
    const std::shared_ptr<Machine> on = machine.lock();
    if (on == nullptr) return;
    on->scheduler->Kill(fiber);
    CloseFiles(&on->kernel);
    for (const auto& [file, open] : opens) on->cache.Unmap(file->first, file->pages, process.slot);
  }
  sim::OpenFile* Open(sim::Kernel* kernel, sim::CacheFile* file) {
    sim::OpenFile*& open = opens[file];
    if (open == nullptr) open = kernel->Open(&thread, file, /*through_ppc=*/true, false);
    return open;
  }
  void CloseFiles(sim::Kernel* kernel) {
    for (auto& [file, open] : opens) {
      if (open != nullptr) kernel->Close(&thread, std::exchange(open, nullptr));
    }
  }

  const std::weak_ptr<Machine> machine;  // a reader may outlive it
  sim::Process process;
  sim::Thread thread;
  sim::Fiber* fiber = nullptr;
  std::map<sim::CacheFile*, sim::OpenFile*> opens;  // nullptr: closed
  uint64_t stall_ns = 0;
};

}  // namespace ppc::test

#endif  // TESTS_POLICY_MACHINE_H_
