// SPDX-License-Identifier: Apache-2.0
// Owns calling a policy: guards every hook (exceptions, time, nonsense), counts, and
// says when the policy has to go.  What lists contain is checked by io_check.
// A watchdog thread notices a hook that hangs.
// Threads: the executor's; the watchdog has its own.
// Paper: sections 3.2 (policy executor) and 3.3 (programming faults).
#ifndef PPC_DAEMON_POLICY_POLICY_HOST_H_
#define PPC_DAEMON_POLICY_POLICY_HOST_H_

#include <ppc.h>

#include <array>
#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <thread>

#include "daemon/base/clock.h"
#include "daemon/base/result.h"
#include "daemon/policy/policy_context.h"

namespace ppc {

// Owns watching the hook in flight from a thread of its own: a hook that hangs cannot
// be cancelled, so another thread must notice.
//
// Threads: Arm and Disarm by the executor; the callbacks run on the watchdog's thread.
class Watchdog {
 public:
  struct Options {
    uint64_t period_ns = 250 * 1000 * 1000;  // how often the thread looks
    // The hook has run longer than its limit.  Called once.
    std::function<void(const char* hook, uint64_t elapsed_ns)> on_hang;
    // A hook is in flight and not yet too long: keeps the lease while it is.
    std::function<void()> on_busy;
  };

  explicit Watchdog(Options options);
  ~Watchdog();
  Watchdog(const Watchdog&) = delete;
  Watchdog& operator=(const Watchdog&) = delete;

  // `hook` is a literal.
  void Arm(const char* hook, uint64_t start_ns, uint64_t limit_ns);
  void Disarm();

  struct Call {
    const char* hook = "";
    uint64_t ns = 0;  // since it was called; 0: none is in flight
  };
  // Any thread.
  Call InFlight() const;

 private:
  void Run();

  const Options options_;
  // A hook is in flight while start_ns_ is not 0; the other two are written before it.
  std::atomic<const char*> hook_{""};
  std::atomic<uint64_t> limit_ns_{0};
  std::atomic<uint64_t> start_ns_{0};
  std::mutex mutex_;
  std::condition_variable wake_;
  bool stop_ = false;
  std::thread thread_;
};

struct PolicyHostOptions {
  uint64_t hook_timeout_ns = 1000 * 1000 * 1000;
  uint32_t hang_factor = 5;       // a hook beyond this many time-outs hangs
  uint32_t blocking_factor = 10;  // ppc_init, ppc_exit and ppc_control may read files
  // Exceptions, slow hooks, nonsense: dropped at so many within the window.  One that is slow
  // once a day is not.
  uint32_t max_faults = 2;
  uint64_t fault_window_ns = 600 * kNsPerSec;
};

enum class Hook {
  kInit,
  kExit,
  kPrefetch,
  kEvict,
  kEvent,
  kPlan,
  kDone,
  kControl,
  kTick,
  kBackground,  // done() of ppc_context.background
};
inline constexpr size_t kHookCount = 10;
const char* HookName(Hook hook);

struct HookStats {
  uint64_t calls = 0;
  uint64_t total_ns = 0;
  uint64_t max_ns = 0;
  uint64_t faults = 0;
};

// A list as returned: `nr` bounded, entries not yet checked.
struct RawList {
  std::span<const ppc_io> ios;
  std::span<const uint64_t> deadlines;  // of each, or none
  uint32_t flags = 0;
  uint64_t refused = 0;  // entries beyond PPC_MAX_IOS
};

class PolicyHost {
 public:
  // The table is copied.  services and watchdog (may be nullptr) must outlive this.
  PolicyHost(const ppc_operation& table, PolicyHostOptions options, HostServices* services,
             Watchdog* watchdog);

  // Calls ppc_init.  An error: the policy refused, or it faulted.
  Status Init(ContextFacts facts);
  // Calls ppc_exit once, if Init succeeded; also after a fault.
  void Exit();

  RawList Prefetch(miss_io* miss);
  RawList Evict(miss_io* miss);
  RawList Plan(const ppc_plan_request& request);
  void Event(const miss_io& event);
  void Done(const ppc_result& result);
  void Tick(uint64_t now_ns);
  // For a pair given to ppc_context.background: work() has thrown `error` ("" it has not), now
  // done() (may be nullptr) is due.  Also for a dropped policy: a caller waits for it.
  void BackgroundDone(void (*done)(void*), void* arg, const std::string& error);
  // The policy's JSON object; ENOTSUP: unknown op; EBADMSG: not JSON or faulted.
  Result<std::string> Control(const std::string& json);

  bool Has(Hook hook) const { return (hooks_ >> static_cast<unsigned>(hook) & 1) != 0; }
  // True for a policy that does its own read-ahead unless it says otherwise by want().
  bool ManagesReadahead() const { return Has(Hook::kPrefetch) || Has(Hook::kPlan); }

  // True once the policy has faulted max_faults times within the window; hooks are not called any
  // more.
  bool IsDropped() const { return dropped_; }
  const std::string& LastFault() const { return last_fault_; }
  uint64_t Faults() const { return faults_; }
  const HookStats& Stats(Hook hook) const { return stats_[static_cast<size_t>(hook)]; }

 private:
  template <typename Call>
  bool Guard(Hook hook, Call&& call);
  void Fault(Hook hook, const std::string& what);
  template <typename List>
  RawList CheckList(Hook hook, const List* list, uint32_t known_flags);
  RawList CheckPrefetch(Hook hook, const prefetch_ios* list);

  const ppc_operation table_;
  const uint32_t hooks_;  // that it has, a bit each
  const PolicyHostOptions options_;
  HostServices* const services_;
  Watchdog* const watchdog_;
  std::unique_ptr<PolicyContext> context_;
  std::array<HookStats, kHookCount> stats_{};
  bool initialized_ = false;
  bool dropped_ = false;
  uint64_t faults_ = 0;
  std::deque<uint64_t> recent_faults_;  // times, those of the window
  std::string last_fault_;
};

}  // namespace ppc

#endif  // PPC_DAEMON_POLICY_POLICY_HOST_H_
