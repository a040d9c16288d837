// SPDX-License-Identifier: Apache-2.0
// Owns what the process inside the cgroup does: answers loads until nobody asks any more.
#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <cstring>
#include <thread>

#include "daemon/backend/cgroup_loader.h"
#include "daemon/base/clock.h"
#include "daemon/machine/mem_policy.h"

namespace ppc {
namespace {

using cgroup_loader::Answer;
using cgroup_loader::kDeviceFd;
using cgroup_loader::kFirstLaneFd;
using cgroup_loader::Request;

struct Activity {
  std::atomic<int> busy{0};
  std::atomic<uint64_t> last_ns{0};
};

void Serve(int lane, Activity* activity) {
  cpu_set_t bound;
  CPU_ZERO(&bound);
  int node = -1;
  LowerIoPriority();
  for (;;) {
    Request request;
    const ssize_t got = recv(lane, &request, sizeof(request), 0);
    if (got < 0 && errno == EINTR) continue;
    // The runner is gone, or is done with us.
    if (got != static_cast<ssize_t>(sizeof(request))) _exit(0);
    ++activity->busy;
    // Where the cgroup's cpuset forbids these CPUs the thread still loads.
    if (CPU_COUNT(&request.cpus) > 0 && !CPU_EQUAL(&request.cpus, &bound)) {
      bound = request.cpus;
      (void)sched_setaffinity(0, sizeof(bound), &bound);
    }
    if (request.node != node) {
      node = request.node;
      (void)PreferNode(node);
    }
    Answer answer;
    std::memset(&answer, 0, sizeof(answer));
    answer.load = request.load;
    while (ioctl(kDeviceFd, PPC_IOC_LOAD, &answer.load) != 0) {
      if (errno == EINTR) continue;
      answer.code = errno;
      break;
    }
    activity->last_ns = MonotonicNs();
    --activity->busy;
    (void)send(lane, &answer, sizeof(answer), MSG_NOSIGNAL);
  }
}

}  // namespace

int ServeLoads(int lanes, int idle_ms) {
  prctl(PR_SET_NAME, "ppc-load");
  signal(SIGTERM, SIG_DFL);
  Activity activity;
  activity.last_ns = MonotonicNs();
  for (int i = 0; i < lanes; ++i) {
    std::thread([lane = kFirstLaneFd + i, &activity] { Serve(lane, &activity); }).detach();
  }
  const uint64_t idle_ns = static_cast<uint64_t>(idle_ms) * 1000 * 1000;
  for (;;) {
    usleep(static_cast<useconds_t>(idle_ms) * 250);
    // A request that comes right now finds the lane closed and is asked again elsewhere.
    if (activity.busy == 0 && MonotonicNs() - activity.last_ns > idle_ns) _exit(0);
  }
}

}  // namespace ppc
