// SPDX-License-Identifier: Apache-2.0
// Owns the decision that the device cannot keep up: the front end keeps missing faster
// than we load, and our own loads have become slow.  Then fewer of our threads may load,
// so that the front end's own reads get the device.
// Threads: none of its own; the caller locks.
// Paper: section 3.2 (loader is interrupted when I/O bandwidth is insufficient).
#ifndef PPC_DAEMON_CACHE_BANDWIDTH_GOVERNOR_H_
#define PPC_DAEMON_CACHE_BANDWIDTH_GOVERNOR_H_

#include <cstdint>

namespace ppc {

class BandwidthGovernor {
 public:
  struct Options {
    uint64_t window_ns = 100 * 1000 * 1000;
    uint64_t min_demand_bytes = 4 << 20;  // per window; less is no competition
    int bad_windows = 3;                  // in a row before anything is taken away
    uint64_t slow_factor = 4;             // times the fastest load seen
    int floor = 2;                        // threads a node that always may load: no idle device
  };

  BandwidthGovernor(Options options, int workers);

  // The front end missed `bytes`.
  void OnDemand(uint64_t now_ns, uint64_t bytes);
  // One of our loads read `bytes` from the device.
  void OnLoaded(uint64_t now_ns, uint64_t bytes, uint64_t duration_ns);

  int Allowed(uint64_t now_ns);
  int LastAllowed() const { return allowed_; }

 private:
  void Roll(uint64_t now_ns);
  void CloseWindow();

  const Options options_;
  const int workers_;
  const int floor_;
  int allowed_;
  int bad_ = 0;
  uint64_t window_start_ns_ = 0;
  uint64_t demand_ = 0;
  uint64_t loaded_ = 0;
  uint64_t busy_ns_ = 0;
  double best_ns_per_byte_ = 0;  // 0 = not known
};

}  // namespace ppc

#endif  // PPC_DAEMON_CACHE_BANDWIDTH_GOVERNOR_H_
