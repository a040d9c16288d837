// SPDX-License-Identifier: Apache-2.0
// Owns the answers to what a policy asks (struct ppc_context), its free counters and its
// time series.
// Threads: the executor's; what ppc_context allows to work() of background() by any.
#ifndef PPC_DAEMON_EXEC_POLICY_SERVICES_H_
#define PPC_DAEMON_EXEC_POLICY_SERVICES_H_

#include <functional>
#include <map>
#include <mutex>
#include <string>

#include "daemon/backend/backend.h"
#include "daemon/base/unique_fd.h"
#include "daemon/cache/demand_meter.h"
#include "daemon/cache/loader_pool.h"
#include "daemon/exec/file_table.h"
#include "daemon/exec/service_table.h"
#include "daemon/policy/policy_context.h"

namespace ppc {

class PolicyServices : public HostServices {
 public:
  struct Parts {
    Backend* backend = nullptr;
    FileTable* files = nullptr;
    ServiceTable* services = nullptr;
    const Topology* topology = nullptr;
    LoaderPool* loader = nullptr;
    DemandMeter* demand = nullptr;
    std::function<Status(uint32_t want, uint64_t beacon_bytes)> want;
    std::function<Status(void (*work)(void*), void (*done)(void*), void* arg)> background;
    std::function<Status(void (*work)(void*), void (*done)(void*), void* arg)> background_remote;
    Guard* guard = nullptr;  // none: nothing is limited
  };

  explicit PolicyServices(Parts parts) : parts_(std::move(parts)) {}

  Status OpenTrace(const std::string& path);
  bool HasTrace() const;
  // Writes out what has gathered of the time series, which may wait for storage.  One at a time.
  void FlushTrace();

  // The memory state a policy sees of a service, at most age_ns old.
  void FillMemory(Service* service, uint64_t age_ns, bool with_cache, ppc_memory* out);
  std::map<std::string, uint64_t> Stats() const;

  void LogMessage(int level, const char* message) override;
  uint64_t NowNs() override;
  int Want(uint32_t want, uint64_t beacon_bytes) override;
  int Memory(uint32_t service, ppc_memory* out) override;
  uint64_t GroupUsed(uint32_t service) override;
  int UseLimit(uint32_t service, bool on) override;
  int FileInfoOf(const char* path, ppc_file_info* out) override;
  int FilePathOf(uint64_t file, char* buffer, size_t bytes) override;
  int ResidentOf(uint64_t file, uint64_t offset, uint64_t size, ppc_residency* out, uint8_t* bitmap,
                 size_t bitmap_bytes) override;
  int64_t ReadFileAt(const char* path, uint64_t offset, void* buffer, size_t size) override;
  int ListDir(const char* path, int (*entry)(void*, const char*, char), void* arg) override;
  int Background(void (*work)(void*), void (*done)(void*), void* arg) override;
  int BackgroundRemote(void (*work)(void*), void (*done)(void*), void* arg) override;
  int XpuNode(int32_t xpu) override;
  int XpuOfProcess(int32_t pid, uint64_t start_ns) override;
  void Interrupt(uint32_t group) override;
  void InterruptOf(uint32_t service, uint32_t group) override;
  int FileNative(uint64_t file, bool native) override;
  void Stat(const char* name, uint64_t value) override;
  void Trace(const char* json) override;

 private:
  static constexpr size_t kMaxStats = 256;
  static constexpr size_t kMaxStatName = 64;
  static constexpr size_t kMaxTraceLine = 4096;
  static constexpr size_t kMaxTrace = 4 << 20;  // not yet written; what is beyond is left out
  static constexpr uint64_t kMaxResident = uint64_t{1} << 40;

  const Parts parts_;
  UniqueFd trace_;
  bool is_trace_broken_ = false;
  mutable std::mutex mutex_;  // of what follows
  std::map<std::string, uint64_t, std::less<>> stats_;
  std::string trace_buffer_;
};

}  // namespace ppc

#endif  // PPC_DAEMON_EXEC_POLICY_SERVICES_H_
