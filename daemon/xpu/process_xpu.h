// SPDX-License-Identifier: Apache-2.0
// Owns the answer to "which worker of a service, hence which XPU, is this process":
// a chain of providers, each answer with its source.  The first that knows wins.
// Threads: any.  Nothing is locked while a process is looked at, which may hang.
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
  kNvml,       // the one that NVML says it computes on
  kDcmi,       // the one that DCMI says it computes on
  kVisible,    // CUDA_VISIBLE_DEVICES and its kin
  kPlacement,  // the node that the threads are bound to
  kOrder,      // order of first read
};
const char* XpuSourceName(XpuSource source);

struct XpuAnswer {
  int worker = -1;
  int xpu = -1;
  XpuSource source = XpuSource::kUnknown;
};

// What one provider says.
struct XpuFinding {
  XpuSource source = XpuSource::kUnknown;
  XpuAnswer answer;  // source kUnknown: it does not know
  std::string says;  // what it has seen, or why it does not know
};

class ProcessXpu {
 public:
  // service_xpus: worker w is bound to service_xpus[w % n].  machine and vendors (nullptr: the
  // makers' libraries are not asked) must outlive this.
  ProcessXpu(SysRoots roots, std::vector<int> service_xpus, const Topology* machine,
             const VendorXpus* vendors = nullptr);

  // Cached per process; an answer weaker than an open device is looked at again now and then,
  // because a worker may open its device later than its first file.
  XpuAnswer Find(int pid, uint64_t start_ns, uint64_t now_ns);
  // Whether Find reads the process's environment, for which it waits if the process hangs.
  bool ReadsEnvironment(int pid, uint64_t start_ns) const {
    return !service_xpus_.empty() && pid > 0 && !Known(pid, start_ns);
  }
  // A caller that knows says which worker this process is; false: there is no such worker.
  bool Bind(int pid, uint64_t start_ns, int worker);
  // Every provider's answer now, in the order of the chain; decides nothing.  *cached is what
  // Find() has answered last (kUnknown: it was not asked yet).
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
  mutable std::mutex mutex_;                        // of what follows
  mutable std::unordered_map<int, Entry> entries_;  // of ended ones, too, until they are looked at
  int next_worker_ = 0;
};

// Owns what the variables that show a process only some XPUs (CUDA_VISIBLE_DEVICES and its kin)
// say about which XPU it uses.
struct VisibleDevices {
  std::string text;       // "CUDA_VISIBLE_DEVICES=2,3", "" if no such variable is set
  std::vector<int> xpus;  // indexes in the machine's list, in the process's order
};

// CUDA_VISIBLE_DEVICES (numbers or GPU-UUIDs), HIP_, ROCR_ and ASCEND_RT_VISIBLE_DEVICES.  A
// number counts the devices of the maker in the order of their PCI addresses.  As the makers'
// runtimes do, the list ends at the first entry that names nothing.
VisibleDevices ReadVisibleDevices(const SysRoots& roots, const std::vector<Xpu>& xpus,
                                  const std::string& environ_text);

}  // namespace ppc

#endif  // PPC_DAEMON_XPU_PROCESS_XPU_H_
