// SPDX-License-Identifier: Apache-2.0
// Writes the /proc entries of simulated processes, see service.h.
#include <sys/stat.h>

#include <fstream>
#include <string>

#include "sim/service.h"

namespace ppc::sim {

void MakeProcess(const Scheduler& scheduler, Process* process, int worker, const std::string& proc,
                 const std::string& service_id) {
  process->start_ns = scheduler.NowNs();
  if (proc.empty()) return;
  const std::string directory = proc + "/proc/" + std::to_string(process->pid);
  mkdir((proc + "/proc").c_str(), 0700);
  mkdir(directory.c_str(), 0700);
  std::ofstream(directory + "/status") << "Name:\tworker\nUid:\t0\t0\t0\t0\n";
  std::ofstream environment(directory + "/environ", std::ios::binary);
  if (!service_id.empty()) environment << "PPC_SERVICE_ID=" << service_id << '\0';
  if (worker < 0) return;
  environment << "PPC_WORKER=" << worker << '\0' << "LOCAL_RANK=" << worker << '\0';
}

// The /proc files that the runtime reads for a process without a service: group and command line.
void WriteStat(const Process& process, int leader, const std::string& proc) {
  constexpr uint64_t kTickNs = 10'000'000;
  constexpr int kGroup = 5, kStart = 22, kLast = 52;
  const std::string directory = proc + "/proc/" + std::to_string(process.pid);
  std::ofstream stat(directory + "/stat");
  stat << process.pid << " (engine) S";
  for (int field = 4; field <= kLast; ++field) {
    if (field == kGroup) {
      stat << ' ' << leader;
    } else if (field == kStart) {
      stat << ' ' << process.start_ns / kTickNs;
    } else {
      stat << " 1";
    }
  }
  stat << '\n';
  std::ofstream(directory + "/cmdline", std::ios::binary) << "engine" << '\0' << "--serve" << '\0';
}

}  // namespace ppc::sim
