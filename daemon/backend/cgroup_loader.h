// SPDX-License-Identifier: Apache-2.0
// Owns a process inside a cgroup that carries out loads there: kernels that cannot charge page
// cache to a cgroup of our choice (5.10, and every kernel without the module) charge it to the
// process that loads.
//
// The process is this program again, started at the first load and gone a little after the
// last one, so that it does not keep an ended service's cgroup populated.  It has the module's
// device (if there is one), one socket per lane, the file that is being loaded, and nothing else.
// It starts a thread when a load comes and all its threads are busy: each counts in the cgroup's
// pids.max.
//
// A cgroup may be frozen or throttled, so a caller waits for an answer only for a while.  The lane
// stays lent until the answer comes; while the process answers nothing, no load is sent to it.
// Threads: Load by any.
// Paper: section 3.3 (the loader runs in the same cgroup as the service).
#ifndef PPC_DAEMON_BACKEND_CGROUP_LOADER_H_
#define PPC_DAEMON_BACKEND_CGROUP_LOADER_H_

#include <ppc/uapi.h>
#include <sched.h>
#include <sys/types.h>

#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "daemon/base/result.h"
#include "daemon/base/unique_fd.h"

namespace ppc {

struct CgroupLoaderOptions {
  // Run with the argument kServeLoadsFlag.
  std::string program = "/proc/self/exe";
  int lanes = 8;                 // loads at the same time
  int idle_ms = 2000;            // without work for so long the process ends
  int answer_timeout_ms = 2000;  // so long a caller waits for its load
  int unresponsive_ms = 30000;   // a process that answers nothing for so long is killed
  // Told of every process before it loads anything, and once it is gone.
  std::function<void(pid_t pid, bool is_there)> on_process;
};

class CgroupLoader {
 public:
  // `cgroup_fd` (a cgroup's directory) and `device_fd` (-1: none) are duplicated.
  static Result<std::unique_ptr<CgroupLoader>> Open(int cgroup_fd, int device_fd,
                                                    CgroupLoaderOptions options = {});
  CgroupLoader(const CgroupLoader&) = delete;
  CgroupLoader& operator=(const CgroupLoader&) = delete;
  ~CgroupLoader();

  // Does the ioctl LOAD inside the cgroup, bound as the calling thread is and preferring `node`
  // (-1: none).  0 or a positive errno; ECHILD: there is no process to do it; EBUSY: there will be
  // none, because the cgroup takes no process (it has children with controllers); kNoAnswer: the
  // process does not answer, or has ended without an answer: later it may.
  static constexpr int kNoAnswer = -2;
  int Load(ppc_load* load, int node) { return LoadWith(-1, load, node); }
  // The same by the file itself, whose descriptor is lent: offset and length of `load` count.
  int LoadFile(int file, ppc_load* load, int node) { return LoadWith(file, load, node); }
  // Waits for the processes that have ended, if they have: one counts in the cgroup's pids.max
  // until then.
  void Reap();
  // From now on it loads in this cgroup, duplicated.  No load is under way.  0 or a positive errno.
  int MoveTo(int cgroup_fd);

 private:
  struct Process {
    Process() = default;
    Process(const Process&) = delete;
    Process& operator=(const Process&) = delete;
    ~Process();
    pid_t pid = -1;
    UniqueFd pidfd;  // its number may belong to another process once it is waited for
    std::vector<UniqueFd> lanes;
    // Under CgroupLoader::mutex_:
    std::vector<size_t> idle;      // lanes without a load
    std::vector<size_t> late;      // lanes whose caller did not wait for the answer
    bool is_unresponsive = false;  // no answer has come since a caller gave up
    bool has_answered = false;
    uint64_t answered_ns = 0;  // of the last answer, or of the start
  };

  CgroupLoader(UniqueFd cgroup, UniqueFd device, CgroupLoaderOptions options);
  int LoadWith(int file, ppc_load* load, int node);
  // A lane of a running process, for the caller alone; nullptr with *code set.
  std::shared_ptr<Process> Take(size_t* lane, int* code);
  void GiveBack(const std::shared_ptr<Process>& process, size_t lane, bool is_late);
  // The process has ended, or is given up.
  void Drop(const std::shared_ptr<Process>& process);
  void TakeLateAnswers();
  bool MayStart(int* code);
  std::shared_ptr<Process> Start(int* code);
  bool CouldNotJoin(const Process& process);
  void ReapLocked();

  UniqueFd cgroup_;
  const UniqueFd device_;
  const CgroupLoaderOptions options_;
  std::mutex mutex_;
  std::condition_variable lane_free_;
  std::shared_ptr<Process> process_;
  std::vector<pid_t> ended_;  // not waited for yet
  bool is_refused_ = false;   // the cgroup takes no process
  int failed_starts_ = 0;     // in a row, of processes that ended without an answer
  uint64_t retry_after_ns_ = 0;
};

// The other side: what the program does when it is started with kServeLoadsFlag LANES IDLE_MS.
// Returns its exit status.
inline constexpr const char* kServeLoadsFlag = "--serve-loads";
int ServeLoads(int lanes, int idle_ms);

namespace cgroup_loader {

// Descriptors of the process.
inline constexpr int kDeviceFd = 3;
inline constexpr int kFirstLaneFd = 4;

// What goes over a lane, one message each way per load; the file beside the first, if there is one.
struct Request {
  ppc_load load;
  cpu_set_t cpus;
  int node;
};
struct Answer {
  ppc_load load;
  int code;
};

}  // namespace cgroup_loader
}  // namespace ppc

#endif  // PPC_DAEMON_BACKEND_CGROUP_LOADER_H_
