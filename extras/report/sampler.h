// SPDX-License-Identifier: Apache-2.0
// Owns watching a service while it starts: what its processes are doing, some tens of times a
// second, and how far it has come with its model.
// Threads: a thread of its own looks; the rest is the caller's.
#ifndef PPC_EXTRAS_REPORT_SAMPLER_H_
#define PPC_EXTRAS_REPORT_SAMPLER_H_

#include <sys/types.h>

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "daemon/machine/roots.h"

namespace ppc::ctl {

// What a process is found doing: the worst of its threads, in this order.
enum class Doing {
  kDisk,    // one waits where it cannot be interrupted: for a page, or for the disk
  kRuns,    // one runs or would like to
  kSleeps,  // all sleep: they wait for a device, a timer, or each other
};

struct ProcessSample {
  pid_t pid = 0;
  Doing doing = Doing::kSleeps;
  // Since the process began, of all its threads.
  uint64_t user_ns = 0;
  uint64_t kernel_ns = 0;
  uint64_t no_cpu_ns = 0;  // would have run
};

struct Sample {
  uint64_t time_ns = 0;  // CLOCK_MONOTONIC
  std::vector<ProcessSample> processes;
};

// How far: bytes of the model that were read, as the policy counts them.
struct Progress {
  uint64_t asked_ns = 0;   // the numbers are of some time between this one
  uint64_t time_ns = 0;    // and this one
  bool is_counted = true;  // false: the policy still prepares and counts later what is read now
  uint64_t bytes = 0;
  uint64_t total = 0;    // of the template that is followed; 0: none
  uint64_t missed = 0;   // bytes that readers did not find
  double disk_rate = 0;  // bytes a second, 0 = not known yet
  bool is_ready = false;
};

struct StartLog {
  uint64_t begin_ns = 0;  // of the command
  uint64_t end_ns = 0;    // ready, or the end of watching
  bool is_ready = false;
  std::vector<Sample> samples;
  std::vector<Progress> progress;
};

// One look at a process and all its descendants.
Sample LookAtProcesses(const SysRoots& roots, pid_t pid, uint64_t now_ns);

class Sampler {
 public:
  // Asks for the service's progress; false: not known now.
  using Ask = std::function<bool(Progress*)>;

  // Looks at `pid` and its descendants until ready, or Finish().
  Sampler(SysRoots roots, pid_t pid, uint64_t begin_ns, Ask ask);
  ~Sampler();
  Sampler(const Sampler&) = delete;
  Sampler& operator=(const Sampler&) = delete;

  // Waits for it to be ready, or for the process to be gone.
  void Wait();
  // What was seen so far; ends the looking.
  StartLog Finish();

 private:
  void Run();
  void Look();
  void AskOnce();
  void End();  // locked

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
