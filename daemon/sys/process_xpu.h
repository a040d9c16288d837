// SPDX-License-Identifier: Apache-2.0
// Owns the answer to "which worker of a service, hence which XPU, is this process":
// a chain of providers, each answer with its source.
// Threads: one.  Paper: section 4.1 (process to XPU by PID).
#ifndef PPC_DAEMON_SYS_PROCESS_XPU_H_
#define PPC_DAEMON_SYS_PROCESS_XPU_H_

#include <cstdint>
#include <unordered_map>
#include <vector>

#include "daemon/sys/roots.h"
#include "daemon/sys/xpu_list.h"

namespace ppc {

enum class XpuSource { kUnknown, kExplicit, kLocalRank, kRank, kDevice, kOrder };
const char* XpuSourceName(XpuSource source);

struct XpuAnswer {
  int worker = -1;
  int xpu = -1;
  XpuSource source = XpuSource::kUnknown;
};

class ProcessXpu {
 public:
  // service_xpus: worker w is bound to service_xpus[w % n].  machine_xpus must outlive this.
  ProcessXpu(SysRoots roots, std::vector<int> service_xpus, const std::vector<Xpu>* machine_xpus);

  // Cached per process; an answer by order of first read is looked at again now and then,
  // because a worker may open its device later than its first file.
  XpuAnswer Find(int pid, uint64_t start_ns, uint64_t now_ns);

 private:
  struct Entry {
    XpuAnswer answer;
    uint64_t start_ns = 0;
    uint64_t next_look_ns = 0;
    uint64_t pause_ns = 0;
  };

  XpuAnswer Ask(int pid) const;
  XpuAnswer AskDevices(int pid) const;
  XpuAnswer ByWorker(int worker, XpuSource source) const;

  static constexpr size_t kMaxEntries = 4096;

  const SysRoots roots_;
  const std::vector<int> service_xpus_;
  const std::vector<Xpu>* const machine_xpus_;
  std::unordered_map<int, Entry> entries_;
  int next_worker_ = 0;
};

}  // namespace ppc

#endif  // PPC_DAEMON_SYS_PROCESS_XPU_H_
