// SPDX-License-Identifier: Apache-2.0
// Owns keys in etcd that exist while this process does: they are under a lease, which a thread of
// its own keeps alive.  A caller that sets values never waits.  While etcd is away, or answers
// nonsense, the thread retries at growing intervals; it logs one line then, and one when etcd is
// back.
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
    uint32_t lease_s = 10;             // after a process dies its keys exist no longer than this
    uint32_t ask_ms = 2000;            // one request
    uint32_t first_back_off_ms = 500;  // doubles
    uint32_t most_back_off_ms = 30000;
  };
  using Values = std::map<std::string, std::string>;

  struct State {
    bool is_up = false;      // all values last set are stored
    uint64_t failures = 0;   // failed requests since the start
    std::string last_error;  // "" while it is up
  };

  explicit EtcdLease(Options options);
  // Revokes the lease, so that the keys are removed at once; waits at most twice ask_ms.
  ~EtcdLease();
  EtcdLease(const EtcdLease&) = delete;
  EtcdLease& operator=(const EtcdLease&) = delete;

  // The complete set of keys from now on; others are removed.
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
  // Used by the thread only.
  std::string lease_;  // "": none
  Values there_;       // stored under the lease
  bool was_told_ = false;

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  Values wanted_;
  bool is_new_ = false;
  bool is_ending_ = false;
  State state_;
  std::thread thread_;  // last: it uses the other members
};

}  // namespace ppc

#endif  // PPC_EXTRAS_PLACEMENT_ETCD_LEASE_H_
