// SPDX-License-Identifier: Apache-2.0
// Owns the backend of a simulation: the modelled kernel answers the runtime's calls in simulated
// time.  Also the runtime's view of memory.
//
// Wait and Load suspend the calling fiber, so the runtime's parts run in fibers, see runner.h.
// Threads: one, except RenewLease (the watchdog's).
#ifndef PPC_SIM_SIM_BACKEND_H_
#define PPC_SIM_SIM_BACKEND_H_

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "daemon/backend/backend.h"
#include "daemon/machine/memory_source.h"
#include "sim/kernel.h"

namespace ppc::sim {

class SimBackend : public Backend {
 public:
  SimBackend(Kernel* kernel, uint32_t mount) : kernel_(kernel), mount_(mount) {
    Device().wake = [this] { WakeForEvent(); };
  }
  SimBackend(const SimBackend&) = delete;
  SimBackend& operator=(const SimBackend&) = delete;
  ~SimBackend() override { Device().wake = nullptr; }

  // Ends Wait: a completion, or work for the executor's fiber.
  void EndWait();
  // Called when the executor has finished its turn and is about to wait.
  void OnWait(std::function<void()> turn_ends) { turn_ends_ = std::move(turn_ends); }

  Capabilities Caps() const override {
    const bool is_module = !kernel_->observes();
    Capabilities caps{.backend = "replay",
                      .unmap = true,
                      .progress = true,
                      .trace = true,
                      .charge = true,
                      .node = true,
                      .open_close = is_module,
                      .managed_readahead = is_module,
                      .exact_counts = is_module,
                      .limits = {}};
    if (!is_module) caps.least_loads = 4;  // as the observer
    return caps;
  }
  uint64_t NowNs() const override { return kernel_->scheduler().NowNs(); }
  Status Attach(const AttachOptions& options) override;
  void Detach() override { kernel_->Detach(mount_); }
  void RenewLease() override {}
  size_t Drain(std::span<Event> batch) override;
  WaitOutcome Wait(uint64_t timeout_ns, bool nap, std::span<pollfd> others) override;
  Result<FileInfo> Resolve(uint64_t file, std::string* path) override;
  Result<FileInfo> Lookup(const std::string& path) override;
  Result<LoadResult> Load(const LoadRequest& request) override;
  Result<EvictResult> Evict(const EvictRequest& request) override;
  Result<Residency> Resident(uint64_t file, uint64_t offset, uint64_t length,
                             std::span<uint8_t> bitmap) override;
  // The name of a payer's control group contains its number, see ControlGroupOf.
  Result<uint32_t> Charge(int cgroup_fd) override;
  Status SetFileNative(uint64_t file, bool native) override;
  Result<size_t> Read(const std::string& path, uint64_t offset, std::span<uint8_t> buffer) override;
  Status List(const std::string& path, const DirEntry& entry) override;
  Result<BackendCounters> Counters() override;

 private:
  void WakeForEvent();
  // Finds a file of the mount.
  CacheFile* Find(uint64_t number);
  CacheFile* FindPath(const std::string& path);
  Kernel::Device& Device() const { return kernel_->device(mount_); }

  Kernel* const kernel_;
  const uint32_t mount_;
  Fiber* waiter_ = nullptr;  // in Wait
  bool naps_ = false;
  bool wait_ends_ = false;
  std::function<void()> turn_ends_;
};

// The directory of a payer's control group below the root of a simulated /sys.
std::string ControlGroupOf(const std::string& root, PayerId payer);

// The tightest of the service's control group, the machine and the configured limit of page cache
// (0: none), at `share` of each.
class SimMemory : public MemorySource {
 public:
  SimMemory(PageCache* cache, double share, uint64_t limit_bytes)
      : cache_(cache), share_(share), limit_bytes_(limit_bytes) {}
  MemoryReading Read(bool with_cache) override;

 private:
  PageCache* const cache_;
  const double share_;
  const uint64_t limit_bytes_;
};

// Writes /proc/meminfo of a machine without a limit, below a simulated root.
void WriteMemInfo(const PageCache& cache, const std::string& root);

}  // namespace ppc::sim

#endif  // PPC_SIM_SIM_BACKEND_H_
