// SPDX-License-Identifier: Apache-2.0
// Owns what the process inside the cgroup does: answers loads until nobody asks any more.
#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cstring>
#include <thread>

#include "daemon/backend/cgroup_loader.h"
#include "daemon/backend/file_cache.h"
#include "daemon/base/clock.h"
#include "daemon/base/unique_fd.h"
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

// The bytes received; `file` is what came with them, if anything did.
ssize_t ReceiveWith(int lane, Request* request, UniqueFd* file) {
  iovec part{request, sizeof(*request)};
  alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(int))> space{};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = space.data();
  message.msg_controllen = space.size();
  const ssize_t got = recvmsg(lane, &message, MSG_CMSG_CLOEXEC);
  const cmsghdr* const header = got > 0 ? CMSG_FIRSTHDR(&message) : nullptr;
  file->Reset();
  if (header != nullptr && header->cmsg_type == SCM_RIGHTS) {
    int fd = -1;
    std::memcpy(&fd, CMSG_DATA(header), sizeof(fd));
    file->Reset(fd);
  }
  return got;
}

// 0 or a positive errno, as the module's ioctl.
int LoadByFile(int file, ppc_load* load) {
  const Result<FileLoad> loaded = LoadFile(file, load->offset, load->length, nullptr);
  if (!loaded) return loaded.error().code;
  load->loaded = load->submitted = loaded->loaded;
  load->resident = loaded->resident;
  load->done = loaded->done;
  load->stop = loaded->is_eof ? PPC_STOP_EOF : PPC_STOP_DONE;
  return 0;
}

int LoadByDevice(ppc_load* load) {
  while (ioctl(kDeviceFd, PPC_IOC_LOAD, load) != 0) {
    if (errno != EINTR) return errno;
  }
  return 0;
}

void Serve(int lane, Activity* activity) {
  cpu_set_t bound;
  CPU_ZERO(&bound);
  int node = -1;
  LowerIoPriority();
  for (;;) {
    Request request;
    UniqueFd file;
    const ssize_t got = ReceiveWith(lane, &request, &file);
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
    answer.code =
        file.IsValid() ? LoadByFile(file.Get(), &answer.load) : LoadByDevice(&answer.load);
    file.Reset();
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
