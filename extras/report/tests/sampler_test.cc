// SPDX-License-Identifier: Apache-2.0
// Which processes the sampler looks at, and how.
#include "extras/report/sampler.h"

#include <gtest/gtest.h>
#include <sched.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <optional>
#include <string>
#include <thread>

#include "daemon/base/clock.h"
#include "tests/unit/child.h"
#include "tests/unit/eventually.h"
#include "tests/unit/temp_tree.h"

namespace ppc::ctl {
namespace {

// A unit's drop-in names a control group, in which ppcctl itself is for a moment.
TEST(SamplerTest, TheFirstOfAUnitIsItsCommand) {
  const TempTree tree;
  const auto put = [&tree](int pid, const char* name, const char* cgroup, int start) {
    const std::string process = "/proc/" + std::to_string(pid);
    tree.Write(process + "/comm", std::string(name) + "\n");
    tree.Write(process + "/cgroup", std::string("0::") + cgroup + "\n");
    tree.Write(process + "/stat", std::to_string(pid) + " (" + name +
                                      ") S 1 1 1 0 -1 4194560 1 0 0 0 1 1 0 0 20 0 1 0 " +
                                      std::to_string(start) + " 1 1\n");
  };
  const SysRoots roots{"", tree.Root()};
  const std::string unit = "/system.slice/llm.service";
  put(7, "sh", "/system.slice/other.service", 10);
  put(30, "ppcctl", unit.c_str(), 20);
  EXPECT_EQ(FirstOfCgroup(roots, unit, "ppcctl"), std::nullopt) << "not yet";
  put(12, "worker", unit.c_str(), 50);  // process numbers have wrapped
  put(40, "serve", unit.c_str(), 40);
  put(41, "worker", unit.c_str(), 40);
  EXPECT_EQ(FirstOfCgroup(roots, unit, "ppcctl"), 40);
}

// Else a process that waits for a CPU with it would be found running.
TEST(SamplerTest, LooksComeBeforeOthersWork) {
  int first = 0;
  Sampler sampler(SysRoots{}, getpid(), MonotonicNs(), [&first](Progress* progress) {
    for (const auto& task : std::filesystem::directory_iterator("/proc/self/task")) {
      const int id = std::stoi(task.path().filename());
      first += getpriority(PRIO_PROCESS, static_cast<id_t>(id)) == -20 ? 1 : 0;
    }
    progress->is_ready = true;
    return true;
  });
  sampler.Wait();
  (void)sampler.Finish();
  const int before = getpriority(PRIO_PROCESS, 0);
  EXPECT_EQ(first, geteuid() == 0 ? 2 : 0) << "of the threads that look and ask";
  EXPECT_NE(before, -20) << "the rest of the program has what it had";
}

// The sampling thread; 0: not yet.
pid_t Looker() {
  for (const auto& task : std::filesystem::directory_iterator("/proc/self/task")) {
    std::string name;
    std::getline(std::ifstream(task.path() / "comm") >> std::ws, name);
    if (name == "ppc-looks") return std::stoi(task.path().filename());
  }
  return 0;
}

// A service of the lowest real-time priority does not keep the sampler from its CPU either.
TEST(SamplerTest, LooksComeBeforeARealTimeService) {
  constexpr sched_param kLowest{.sched_priority = 1};
  bool may_be_real_time = false;
  std::thread([&] { may_be_real_time = sched_setscheduler(0, SCHED_RR, &kLowest) == 0; }).join();
  if (!may_be_real_time) GTEST_SKIP() << "no real-time priorities here";
  Sampler sampler(SysRoots{}, getpid(), MonotonicNs(), [](Progress*) { return false; });
  EXPECT_TRUE(Eventually([&kLowest] {
    const pid_t looker = Looker();
    sched_param own{};
    return looker != 0 && sched_getscheduler(looker) == SCHED_RR &&
           sched_getparam(looker, &own) == 0 && own.sched_priority > kLowest.sched_priority;
  }));
}

// Slow answers, as on a busy machine, do not reduce the rate of samples.
TEST(SamplerTest, LooksGoOnBesideASlowAnswer) {
  bool went_on = false;
  Sampler sampler(SysRoots{}, getpid(), MonotonicNs(), [&went_on](Progress* progress) {
    // It waits after each look.
    uint64_t before = 0;
    went_on = Eventually([&before] {
      const pid_t looker = Looker();
      if (looker != 0 && before == 0) before = WaitsOf(looker);
      return looker != 0 && WaitsOf(looker) >= before + 5;
    });
    progress->is_ready = true;
    return true;
  });
  sampler.Wait();
  const StartLog log = sampler.Finish();
  EXPECT_TRUE(went_on);
  ASSERT_EQ(log.progress.size(), 1u);
  EXPECT_GE(std::ranges::count_if(log.samples,
                                  [asked_ns = log.progress[0].asked_ns](const Sample& sample) {
                                    return sample.time_ns > asked_ns;
                                  }),
            4);
}

// A child that burns CPU, and one that sleeps.
TEST(SamplerTest, RealProcessesAreSeen) {
  const pid_t burner = StartChild([] {
    for (;;) asm volatile("");  // a loop without effect may be optimised away
  });
  const pid_t sleeper = StartSleeper();
  Sample sample;
  const auto of = [&sample](pid_t pid) {
    const auto it = std::find_if(sample.processes.begin(), sample.processes.end(),
                                 [pid](const ProcessSample& each) { return each.pid == pid; });
    return it == sample.processes.end() ? ProcessSample{} : *it;
  };
  // Both have begun.
  for (int i = 0; i < 2000; ++i) {
    sample = LookAtProcesses(SysRoots{}, getpid(), MonotonicNs());
    if (of(burner).user_ns > 0 && of(sleeper).pid == sleeper && of(sleeper).doing == Doing::kSleeps)
      break;
    usleep(10'000);
  }
  EXPECT_EQ(of(burner).doing, Doing::kRuns);
  EXPECT_GT(of(burner).user_ns + of(burner).no_cpu_ns, 0u);
  EXPECT_EQ(of(sleeper).doing, Doing::kSleeps);
  EXPECT_EQ(of(getpid()).pid, getpid());
  for (const pid_t pid : {burner, sleeper}) KillAndReap(pid);
}

}  // namespace
}  // namespace ppc::ctl
