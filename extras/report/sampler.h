// SPDX-License-Identifier: Apache-2.0
// Owns watching a service while it starts: its processes' states, some tens of times a second, and
// its progress with the model.
// Threads: a thread of its own looks; the rest is the caller's.
#ifndef PPC_EXTRAS_REPORT_SAMPLER_H_
#define PPC_EXTRAS_REPORT_SAMPLER_H_

#include <sys/types.h>

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "daemon/machine/roots.h"

namespace ppc::ctl {

// A process's state: the first of these that one of its threads is in.
enum class Doing {
  kDisk,    // a thread waits uninterruptibly: for a page, or for the disk
  kRuns,    // a thread runs or is runnable
  kSleeps,  // all sleep: they wait for a device, a timer, or each other
};

struct ProcessSample {
  pid_t pid = 0;
  Doing doing = Doing::kSleeps;
  // Since the process began, of all its threads.
  uint64_t user_ns = 0;
  uint64_t kernel_ns = 0;
  uint64_t no_cpu_ns = 0;  // runnable, without a CPU
};

struct Sample {
  uint64_t time_ns = 0;  // CLOCK_MONOTONIC
  std::vector<ProcessSample> processes;
};

// Progress: bytes of the model that were read, as the policy counts them.
struct Progress {
  uint64_t asked_ns = 0;   // the numbers are from between this time
  uint64_t time_ns = 0;    // and this one
  bool is_counted = true;  // false: the policy still prepares, and counts these reads later
  uint64_t bytes = 0;
  uint64_t total = 0;    // of the followed template; 0: none
  uint64_t missed = 0;   // bytes that readers missed
  double disk_rate = 0;  // bytes a second, 0 = unknown
  bool is_ready = false;
};

struct StartLog {
  uint64_t begin_ns = 0;  // of the command
  uint64_t end_ns = 0;    // ready, or the end of watching
  bool is_ready = false;
  std::vector<Sample> samples;
  std::vector<Progress> progress;
};

// The process of the control group that began first; `cgroup` as ProcessCgroup() writes it.  One
// that is named `other` does not count.  nullopt: there is none.
std::optional<pid_t> FirstOfCgroup(const SysRoots& roots, const std::string& cgroup,
                                   const std::string& other);

// Takes one sample of a process and all its descendants.
Sample LookAtProcesses(const SysRoots& roots, pid_t pid, uint64_t now_ns);

class Sampler {
 public:
  // Asks for the service's progress; false: not known now.
  using Ask = std::function<bool(Progress*)>;

  // Samples `pid` and its descendants until ready, or Finish().
  Sampler(SysRoots roots, pid_t pid, uint64_t begin_ns, Ask ask);
  ~Sampler();
  Sampler(const Sampler&) = delete;
  Sampler& operator=(const Sampler&) = delete;

  // Waits until it is ready, or the process is gone.
  void Wait();
  // Ends sampling and returns the log.
  StartLog Finish();

 private:
  void Run();
  void Look();
  void AskOnce();
  void End();  // mutex_ held

  const SysRoots roots_;
  const pid_t pid_;
  const Ask ask_;
  StartLog log_;
  std::mutex mutex_;
  std::condition_variable wake_;
  bool is_ending_ = false;
  std::thread thread_;
};

}  // namespace ppc::ctl

#endif  // PPC_EXTRAS_REPORT_SAMPLER_H_
