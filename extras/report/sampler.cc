// SPDX-License-Identifier: Apache-2.0
#include "extras/report/sampler.h"

#include <pthread.h>
#include <sched.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <ctime>
#include <sstream>
#include <utility>

#include "daemon/base/clock.h"
#include "daemon/base/files.h"
#include "daemon/machine/proc_info.h"
#include "extras/learnt_models/open_models.h"

namespace ppc::ctl {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kPeriod{20};
constexpr milliseconds kQuestions{100};
// Looking at many threads takes long: use at most a tenth of a CPU.
constexpr int kIdlePerLook = 9;
constexpr int kLooksFirst = -20;  // its nice value
// Real-time priority, if permitted: above the lowest, which a service may use.
constexpr int kLooksPriority = 2;
// Covers a start of half an hour; later samples are dropped.
constexpr size_t kMostSamples = 90'000;

// CPU time of this thread; waits for an answer cost none.
uint64_t UsedNs() {
  timespec used{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &used);
  return static_cast<uint64_t>(used.tv_sec) * kNsPerSec + static_cast<uint64_t>(used.tv_nsec);
}

// The fields of /proc/PID/stat behind the name, which may contain blanks and brackets.
std::string Behind(const std::string& stat) {
  const size_t at = stat.rfind(')');
  return at == std::string::npos ? "" : stat.substr(at + 1);
}

ProcessSample LookAtProcess(const SysRoots& roots, pid_t pid) {
  static const uint64_t kTickNs = kNsPerSec / static_cast<uint64_t>(sysconf(_SC_CLK_TCK));
  ProcessSample sample;
  sample.pid = pid;
  const std::string process = roots.Proc("/" + std::to_string(pid));
  if (const Result<std::string> stat = ReadFile(process + "/stat", 4096)) {
    std::istringstream fields(Behind(*stat));
    std::string skipped;
    for (int i = 0; i < 11; ++i) fields >> skipped;  // state to cmajflt
    uint64_t user = 0;
    uint64_t kernel = 0;
    fields >> user >> kernel;
    sample.user_ns = user * kTickNs;
    sample.kernel_ns = kernel * kTickNs;
  }
  for (const int thread : ListNumbers(process + "/task")) {
    const std::string task = process + "/task/" + std::to_string(thread);
    if (const Result<std::string> schedule = ReadFile(task + "/schedstat", 256)) {
      std::istringstream fields(*schedule);
      uint64_t ran_ns = 0;
      uint64_t waited_ns = 0;
      fields >> ran_ns >> waited_ns;
      sample.no_cpu_ns += waited_ns;
    }
    const Result<std::string> stat = ReadFile(task + "/stat", 4096);
    const std::string fields = stat ? Behind(*stat) : "";
    const char state = fields.size() > 1 ? fields[1] : 'S';
    if (state == 'D') sample.doing = Doing::kDisk;
    if (state == 'R') sample.doing = std::min(sample.doing, Doing::kRuns);
  }
  return sample;
}

}  // namespace

Sample LookAtProcesses(const SysRoots& roots, pid_t pid, uint64_t now_ns) {
  Sample sample;
  sample.time_ns = now_ns;
  for (const pid_t each : Descendants(roots, pid)) {
    sample.processes.push_back(LookAtProcess(roots, each));
  }
  return sample;
}

Sampler::Sampler(SysRoots roots, pid_t pid, uint64_t begin_ns, Ask ask)
    : roots_(std::move(roots)), pid_(pid), ask_(std::move(ask)) {
  log_.begin_ns = begin_ns;
  thread_ = std::thread([this] { Run(); });
}

Sampler::~Sampler() { (void)Finish(); }

// Only looks: waiting for a ppcd without a CPU would delay the samples.
void Sampler::Look() {
  pthread_setname_np(pthread_self(), "ppc-looks");
  // A look is short, and all looks together take a tenth of a CPU.
  const sched_param first{.sched_priority = kLooksPriority};
  (void)sched_setscheduler(0, SCHED_RR, &first);
  std::unique_lock lock(mutex_);
  while (!is_ending_) {
    lock.unlock();
    const uint64_t now_ns = MonotonicNs();
    const uint64_t used_before_ns = UsedNs();
    Sample sample = LookAtProcesses(roots_, pid_, now_ns);
    const bool is_gone = access(roots_.Proc("/" + std::to_string(pid_)).c_str(), F_OK) != 0;
    const uint64_t used_ns = UsedNs() - used_before_ns;
    lock.lock();
    if (log_.samples.size() < kMostSamples) log_.samples.push_back(std::move(sample));
    if (!log_.is_ready) log_.end_ns = now_ns;
    if (is_gone) End();
    const auto idle = std::max<std::chrono::nanoseconds>(
        kPeriod, std::chrono::nanoseconds(used_ns * kIdlePerLook));
    if (!is_ending_) wake_.wait_for(lock, idle, [this] { return is_ending_; });
  }
}

void Sampler::AskOnce() {
  const uint64_t asked_ns = MonotonicNs();  // the answer may take a while
  Progress progress;
  if (!ask_(&progress)) return;
  const std::lock_guard lock(mutex_);
  progress.asked_ns = asked_ns;
  progress.time_ns = is_ending_ ? asked_ns : MonotonicNs();
  log_.progress.push_back(progress);
  if (!progress.is_ready) return;
  log_.is_ready = true;
  log_.end_ns = asked_ns;
  End();
}

void Sampler::Run() {
  // Raises the priority of both threads (root only).  If the CPUs are busy a look is late just when
  // the watched processes also wait for a CPU, so they would be found running too often.
  (void)setpriority(PRIO_PROCESS, 0, kLooksFirst);
  std::thread looks([this] { Look(); });
  std::unique_lock lock(mutex_);
  while (!is_ending_) {
    lock.unlock();
    AskOnce();
    lock.lock();
    wake_.wait_for(lock, kQuestions, [this] { return is_ending_; });
  }
  const bool is_ready = log_.is_ready;
  lock.unlock();
  looks.join();
  if (is_ready) return;
  // Its last action may have been to report ready.
  log_.end_ns = MonotonicNs();
  AskOnce();
}

void Sampler::End() {
  is_ending_ = true;
  wake_.notify_all();
}

void Sampler::Wait() {
  std::unique_lock lock(mutex_);
  wake_.wait(lock, [this] { return is_ending_; });
}

StartLog Sampler::Finish() {
  {
    const std::lock_guard lock(mutex_);
    End();
  }
  if (thread_.joinable()) thread_.join();
  return log_;
}

std::optional<pid_t> FirstOfCgroup(const SysRoots& roots, const std::string& cgroup,
                                   const std::string& other) {
  std::optional<pid_t> first;
  uint64_t first_ns = UINT64_MAX;
  for (const int pid : ListNumbers(roots.Proc(""))) {
    if (ProcessCgroup(roots, pid) != cgroup) continue;
    const Result<std::string> name = ReadLine(roots.Proc("/" + std::to_string(pid) + "/comm"));
    const std::optional<uint64_t> start_ns = ProcessStartNs(roots, pid);
    if (!name || *name == other || !start_ns) continue;
    // Among children of one tick: the one that was forked first, as far as numbers tell.
    if (*start_ns > first_ns || (*start_ns == first_ns && pid > *first)) continue;
    first = pid;
    first_ns = *start_ns;
  }
  return first;
}

}  // namespace ppc::ctl
