// SPDX-License-Identifier: Apache-2.0
// Owns asking a vendor's library which processes compute on which device, without trusting it.
//
// The library may be missing, crash, corrupt memory, or hang in its driver, so it is never loaded
// here.  A process of its own (this program again, without any capability) loads it, asks, and
// writes the answer to a pipe; it is killed after a time limit.  A thread waits for that process;
// no other thread ever waits.  Without a query there is neither thread nor process.
// Threads: Latest by any.
#ifndef PPC_EXTRAS_VENDORS_XPU_QUERY_H_
#define PPC_EXTRAS_VENDORS_XPU_QUERY_H_

#include <sys/types.h>

#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <thread>

#include "daemon/base/unique_fd.h"
#include "extras/vendors/xpu_library.h"

namespace ppc {

class XpuQuery {
 public:
  struct Options {
    std::string library;  // kNvmlName, kDcmiName
    // Started with the arguments kAskXpusFlag LIBRARY.
    std::string program = "/proc/self/exe";
    int limit_ms = 10000;  // without persistence mode the first query to NVML takes seconds
    int again_ms = 1000;   // an older answer is renewed at the next request
    int again_after_problem_ms = 60000;
  };

  explicit XpuQuery(Options options);
  ~XpuQuery();
  XpuQuery(const XpuQuery&) = delete;
  XpuQuery& operator=(const XpuQuery&) = delete;

  // The last answer; never waits.  Starts a new query if it is old.
  std::shared_ptr<const XpuListing> Latest();

 private:
  void Run();
  XpuListing Ask();
  // Waits until the process is gone, the time is over or this object stops.  *status: exit status.
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
  pid_t lost_ = -1;  // killed, but its driver does not let it die; used by the thread
  std::thread thread_;
};

}  // namespace ppc

#endif  // PPC_EXTRAS_VENDORS_XPU_QUERY_H_
