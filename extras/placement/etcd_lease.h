// SPDX-License-Identifier: Apache-2.0
// Owns keys in etcd that are there as long as this process is: they hang on a lease, which a thread
// of its own keeps alive.  A caller that sets values never waits.  While etcd is away, or answers
// nonsense, the thread tries again at growing intervals; that is one line of the log, and one when
// it is back.
// Threads: Set and Read by any.
#ifndef PPC_EXTRAS_PLACEMENT_ETCD_LEASE_H_
#define PPC_EXTRAS_PLACEMENT_ETCD_LEASE_H_

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <thread>

#include "daemon/base/json.h"
#include "daemon/base/result.h"

namespace ppc {

class EtcdLease {
 public:
  struct Options {
    std::string address;               // http://HOST:PORT
    uint32_t lease_s = 10;             // of a process that has died its keys stay no longer
    uint32_t ask_ms = 2000;            // one request
    uint32_t first_back_off_ms = 500;  // doubles
    uint32_t most_back_off_ms = 30000;
  };
  using Values = std::map<std::string, std::string>;

  struct State {
    bool is_up = false;      // all that was set last is there
    uint64_t failures = 0;   // requests, since the beginning
    std::string last_error;  // "" while it is up
  };

  explicit EtcdLease(Options options);
  // Gives the lease back, so that the keys go at once; waits for one request at most twice ask_ms.
  ~EtcdLease();
  EtcdLease(const EtcdLease&) = delete;
  EtcdLease& operator=(const EtcdLease&) = delete;

  // All there is to be from now on; keys that are missing are removed.
  void Set(Values values);
  State Read() const;

 private:
  using Clock = std::chrono::steady_clock;

  void Run();
  Status Turn(const Values& wanted);
  Status KeepAlive();
  Status Grant();
  Result<Json> Ask(const std::string& path, const Json& request) const;
  void Note(const Status& status);

  const Options options_;
  // Used by the thread alone.
  std::string lease_;  // "": none
  Values there_;       // what was put under it
  bool was_told_ = false;

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  Values wanted_;
  bool is_new_ = false;
  bool is_ending_ = false;
  State state_;
  std::thread thread_;  // the last: it uses the others
};

}  // namespace ppc

#endif  // PPC_EXTRAS_PLACEMENT_ETCD_LEASE_H_
