// SPDX-License-Identifier: Apache-2.0
// Owns watching the hook in flight from a thread of its own: a hook that hangs cannot
// be cancelled, so another thread must notice.
//
// Threads: Arm and Disarm by the executor; the callbacks run on the watchdog's thread.
#ifndef PPC_DAEMON_POLICY_WATCHDOG_H_
#define PPC_DAEMON_POLICY_WATCHDOG_H_

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <thread>

namespace ppc {

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

}  // namespace ppc

#endif  // PPC_DAEMON_POLICY_WATCHDOG_H_
