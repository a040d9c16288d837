// SPDX-License-Identifier: Apache-2.0
// Owns the backend that drives the kernel module through /dev/ppcN: one descriptor
// reads events, a second one carries out loads (its charge handles belong to it), so
// that closing or losing the first never stops an ioctl in flight.
// Threads: as backend.h.
#ifndef PPC_DAEMON_BACKEND_KMOD_KMOD_BACKEND_H_
#define PPC_DAEMON_BACKEND_KMOD_KMOD_BACKEND_H_

#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "daemon/backend/backend.h"
#include "daemon/backend/cgroup_loaders.h"
#include "daemon/backend/kmod/kmod_files.h"
#include "daemon/backend/kmod/upc_device.h"
#include "daemon/backend/root_files.h"
#include "daemon/base/clock.h"

namespace ppc {

class KmodBackend : public Backend {
 public:
  // `found`: what is at `path`.
  static Result<std::unique_ptr<KmodBackend>> Open(const std::string& path, const UpcMount& found);

  Capabilities Caps() const override;
  uint64_t NowNs() const override;
  Status Attach(const AttachOptions& options) override;
  void Detach() override;
  void RenewLease() override;
  size_t Drain(std::span<Event> batch) override;
  void Gather() override { events_.Flush(); }
  WaitOutcome Wait(uint64_t timeout_ns, bool nap, std::span<pollfd> others) override;
  Result<FileInfo> Resolve(uint64_t file, std::string* path) override;
  Result<FileInfo> Lookup(const std::string& path) override;
  Result<LoadResult> Load(const LoadRequest& request) override;
  void Interrupt(uint32_t group) override;
  Result<EvictResult> Evict(const EvictRequest& request) override;
  Result<Residency> Resident(uint64_t file, uint64_t offset, uint64_t length,
                             std::span<uint8_t> bitmap) override;
  Result<uint32_t> Charge(int cgroup_fd) override;
  void Uncharge(uint32_t handle) override;
  Status SetFileNative(uint64_t file, bool native) override;
  Result<size_t> Read(const std::string& path, uint64_t offset, std::span<uint8_t> buffer) override;
  Status List(const std::string& path, const DirEntry& entry) override;
  Result<BackendCounters> Counters() override;

 private:
  // In the module's own numbers.
  KmodFiles::Module ModuleCalls();
  Result<FileInfo> AskNumber(uint64_t number, std::string* path);
  Result<FileInfo> AskPath(const std::string& path) const;
  // The device's own look-up: no symbolic links.
  Result<FileInfo> LookupPlain(const std::string& path) const;
  Result<LoadResult> LoadNumber(uint64_t number, const LoadRequest& request);
  Result<EvictResult> EvictNumber(uint64_t number, const EvictRequest& request);
  KmodBackend(UpcDevice events, UpcDevice loader, RootFiles files, ppc_info info);
  bool CanCharge() const { return (info_.caps & PPC_CAP_CHARGE) != 0; }

  static constexpr size_t kBatch = 512;
  static constexpr uint64_t kSlowNs = 20 * kNsPerMs;

  UpcDevice events_;
  UpcDevice loader_;
  const RootFiles files_;
  KmodFiles numbers_;
  const ppc_info info_;
  // Added to every generation: a runner before us left its own in the device's cancel slots.
  const uint64_t first_generation_;
  // Generations of the module's cancel slots, which groups share.
  std::array<std::atomic<uint64_t>, PPC_CANCEL_SLOTS> generations_{};
  std::vector<ppc_event> raw_;
  CgroupLoaders charged_;  // where the kernel has no handles
};

}  // namespace ppc

#endif  // PPC_DAEMON_BACKEND_KMOD_KMOD_BACKEND_H_
