// SPDX-License-Identifier: Apache-2.0
// Owns what the process inside the cgroup does: answers loads until the last lane is closed.
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cstring>
#include <system_error>
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

struct Shared {
  int lanes = 0;
  uint64_t idle_ns = 0;
  UniqueFd epoll;
  std::atomic<int> threads{1};
  std::atomic<int> waiting{1};  // threads without a load, also before they wait
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

// 0 or a positive errno, as the module's ioctl.  The service pays: a page that its memory has no
// room for is left to its reader, since the kernel would kill for it.
int LoadByFile(int file, ppc_load* load) {
  const Result<FileLoad> loaded =
      LoadFile(file, load->offset, load->length, nullptr, LoadMode::kLeaveSkipped);
  if (!loaded) return loaded.error().code;
  load->loaded = load->submitted = loaded->loaded;
  load->resident = loaded->resident;
  load->done = loaded->done;
  load->stop = loaded->is_refused ? PPC_STOP_NOMEM : loaded->is_eof ? PPC_STOP_EOF : PPC_STOP_DONE;
  return 0;
}

int LoadByDevice(ppc_load* load) {
  while (ioctl(kDeviceFd, PPC_IOC_LOAD, load) != 0) {
    if (errno != EINTR) return errno;
  }
  return 0;
}

void Serve(Shared* shared);

// The cgroup may allow no more threads: then those that there are will do.
void AddThread(Shared* shared) {
  if (shared->threads.fetch_add(1) < shared->lanes) {
    ++shared->waiting;
    try {
      std::thread([shared] { Serve(shared); }).detach();
      return;
    } catch (const std::system_error&) {
      --shared->waiting;
    }
  }
  --shared->threads;
}

// The lane on which a request has come, for the caller alone.  Ends the process when none has come
// for long enough: a request that comes right now finds its lane closed and is asked again
// elsewhere.
int AwaitLane(Shared* shared) {
  const int look_ms = static_cast<int>(shared->idle_ns / kNsPerMs / 4) + 1;
  epoll_event event{};
  while (epoll_wait(shared->epoll.Get(), &event, 1, look_ms) != 1) {
    const bool is_idle = shared->waiting == shared->threads;
    if (is_idle && MonotonicNs() - shared->last_ns > shared->idle_ns) _exit(0);
  }
  if (--shared->waiting == 0) AddThread(shared);
  return event.data.fd;
}

void Watch(const Shared& shared, int lane, int operation) {
  epoll_event event{};
  event.events = EPOLLIN | EPOLLONESHOT;
  event.data.fd = lane;
  if (epoll_ctl(shared.epoll.Get(), operation, lane, &event) != 0) _exit(1);
}

void Serve(Shared* shared) {
  cpu_set_t bound;
  CPU_ZERO(&bound);
  int node = -1;
  LowerIoPriority();
  for (;;) {
    const int lane = AwaitLane(shared);
    Request request;
    UniqueFd file;
    ssize_t got = 0;
    do {
      got = ReceiveWith(lane, &request, &file);
    } while (got < 0 && errno == EINTR);
    // The runner is gone, or is done with us.
    if (got != static_cast<ssize_t>(sizeof(request))) _exit(0);
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
    shared->last_ns = MonotonicNs();
    ++shared->waiting;
    (void)send(lane, &answer, sizeof(answer), MSG_NOSIGNAL);
    Watch(*shared, lane, EPOLL_CTL_MOD);
  }
}

}  // namespace

int ServeLoads(int lanes, int idle_ms) {
  prctl(PR_SET_NAME, "ppc-load");
  signal(SIGTERM, SIG_DFL);
  // A service whose memory is used up must not lose a process of its own to our loads.
  const UniqueFd score(open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC));
  (void)!write(score.Get(), "1000", 4);
  static Shared shared;
  shared.lanes = lanes;
  shared.idle_ns = static_cast<uint64_t>(idle_ms) * kNsPerMs;
  shared.last_ns = MonotonicNs();
  shared.epoll.Reset(epoll_create1(EPOLL_CLOEXEC));
  for (int i = 0; i < lanes; ++i) Watch(shared, kFirstLaneFd + i, EPOLL_CTL_ADD);
  Serve(&shared);
  return 0;
}

}  // namespace ppc
