// SPDX-License-Identifier: Apache-2.0
// Owns asking one maker's library which processes compute on which device, without trusting it.
//
// The library may be missing, crash, write where it should not, or hang in its driver.  So it is
// never loaded here: a process of its own (this program again, without any capability) loads it,
// asks, and writes its answer to a pipe; it is killed after a time limit.  A thread waits for that
// process; no other thread ever waits, and without a question there is neither thread nor process.
// Threads: Latest by any.
#ifndef PPC_DAEMON_XPU_XPU_QUERY_H_
#define PPC_DAEMON_XPU_XPU_QUERY_H_

#include <sys/types.h>

#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <thread>

#include "daemon/base/unique_fd.h"
#include "daemon/xpu/xpu_library.h"

namespace ppc {

class XpuQuery {
 public:
  struct Options {
    std::string library;  // kNvmlName, kDcmiName
    // Run with the arguments kAskXpusFlag LIBRARY.
    std::string program = "/proc/self/exe";
    int limit_ms = 10000;  // without persistence the first question to NVML takes seconds
    int again_ms = 1000;   // an answer of that age is renewed when it is asked for
    int again_after_problem_ms = 60000;
  };

  explicit XpuQuery(Options options);
  ~XpuQuery();
  XpuQuery(const XpuQuery&) = delete;
  XpuQuery& operator=(const XpuQuery&) = delete;

  // What was answered last; never waits.  Asks anew when that is old.
  std::shared_ptr<const XpuListing> Latest();

 private:
  void Run();
  XpuListing Ask();
  // Until the process is gone, the time is over or we are to stop.  Its exit status is in *status.
  std::string Await(pid_t pid, int answer_fd, std::string* text, int* status);
  void End(pid_t pid);

  const Options options_;
  const UniqueFd stop_fd_;
  std::mutex mutex_;
  std::condition_variable wake_;
  std::shared_ptr<const XpuListing> latest_;
  uint64_t next_ns_ = 0;
  bool is_wanted_ = false;
  bool is_stopping_ = false;
  pid_t lost_ = -1;  // killed, but its driver does not let it die; the thread's
  std::thread thread_;
};

}  // namespace ppc

#endif  // PPC_DAEMON_XPU_XPU_QUERY_H_
