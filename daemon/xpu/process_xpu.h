// SPDX-License-Identifier: Apache-2.0
// Owns the answer to "which worker of a service, hence which XPU, is this process": a chain of
// providers, each answer with its source.  The first provider that knows wins.
// Threads: any.  No lock is held while a process is examined, which may hang.
// Paper: section 4.1 (process to XPU by PID).
#ifndef PPC_DAEMON_XPU_PROCESS_XPU_H_
#define PPC_DAEMON_XPU_PROCESS_XPU_H_

#include <cstdint>
#include <mutex>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "daemon/machine/roots.h"
#include "daemon/machine/topology.h"
#include "daemon/machine/xpu_list.h"
#include "daemon/xpu/vendor_xpus.h"

namespace ppc {

// In the order of the chain.
enum class XpuSource {
  kUnknown,
  kTold,       // Bind()
  kExplicit,   // PPC_WORKER
  kLocalRank,  // LOCAL_RANK
  kRank,       // RANK
  kDevice,     // the one accelerator whose device file is open
  kNvml,       // computes on it, according to NVML
  kDcmi,       // computes on it, according to DCMI
  kVisible,    // CUDA_VISIBLE_DEVICES and its kin
  kPlacement,  // the node that its threads are bound to
  kOrder,      // order of first reads
};
const char* XpuSourceName(XpuSource source);

struct XpuAnswer {
  int worker = -1;
  int xpu = -1;
  XpuSource source = XpuSource::kUnknown;
};

// The answer of one provider.
struct XpuFinding {
  XpuSource source = XpuSource::kUnknown;
  XpuAnswer answer;  // source kUnknown: no answer
  std::string says;  // the evidence, or why there is no answer
};

class ProcessXpu {
 public:
  // service_xpus: worker w is bound to service_xpus[w % n].  machine and vendors (nullptr: vendor
  // libraries are not asked) must outlive this.
  ProcessXpu(SysRoots roots, std::vector<int> service_xpus, const Topology* machine,
             const VendorXpus* vendors = nullptr);

  // Cached per process.  An answer weaker than an open device is checked again now and then,
  // because a worker may open its device after its first file.
  XpuAnswer Find(int pid, uint64_t start_ns, uint64_t now_ns);
  // Whether Find reads the process's environment, which blocks while the process hangs.
  bool ReadsEnvironment(int pid, uint64_t start_ns) const {
    return !service_xpus_.empty() && pid > 0 && !Known(pid, start_ns);
  }
  // Sets the worker of a process; false: there is no such worker.
  bool Bind(int pid, uint64_t start_ns, int worker);
  // Every provider's current answer, in the order of the chain; decides nothing.  *cached: Find()'s
  // last answer (kUnknown: none yet).
  std::vector<XpuFinding> Explain(int pid, uint64_t start_ns, XpuAnswer* cached) const;

 private:
  struct Entry {
    XpuAnswer answer;
    uint64_t start_ns = 0;
    uint64_t next_look_ns = 0;
    uint64_t pause_ns = 0;
  };

  XpuAnswer Ask(int pid, uint64_t start_ns) const;
  XpuFinding AskRank(const std::string& environ_text, const char* name, XpuSource source) const;
  XpuFinding AskDevices(int pid) const;
  XpuFinding AskVendor(XpuSource source, int pid, uint64_t start_ns) const;
  XpuAnswer AskLater(int pid, uint64_t start_ns) const;
  XpuFinding AskVisible(const std::string& environ_text) const;
  XpuFinding AskPlacement(int pid) const;
  XpuAnswer ByWorker(int worker, XpuSource source) const;
  XpuAnswer ByXpu(int xpu, XpuSource source) const;
  bool IsTaken(int xpu, int but_pid) const;

  std::optional<Entry> Known(int pid, uint64_t start_ns) const;
  void Trim();

  static constexpr size_t kMaxEntries = 4096;

  const SysRoots roots_;
  const std::vector<int> service_xpus_;
  const Topology* const machine_;
  const VendorXpus* const vendors_;
  mutable std::mutex mutex_;                        // protects the members below
  mutable std::unordered_map<int, Entry> entries_;  // also ended processes, until checked
  int next_worker_ = 0;
};

// Owns parsing the variables that restrict a process to some XPUs (CUDA_VISIBLE_DEVICES and its
// kin).
struct VisibleDevices {
  std::string text;       // "CUDA_VISIBLE_DEVICES=2,3", "" if no variable is set
  std::vector<int> xpus;  // indexes in the machine's list, in the process's order
};

// CUDA_VISIBLE_DEVICES (numbers or GPU-UUIDs), HIP_, ROCR_ and ASCEND_RT_VISIBLE_DEVICES.  A number
// counts the vendor's devices in the order of their PCI addresses.  As in the vendors' runtimes,
// the list ends at the first entry that names no device.
VisibleDevices ReadVisibleDevices(const SysRoots& roots, const std::vector<Xpu>& xpus,
                                  const std::string& environ_text);

}  // namespace ppc

#endif  // PPC_DAEMON_XPU_PROCESS_XPU_H_
