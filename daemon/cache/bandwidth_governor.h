// SPDX-License-Identifier: Apache-2.0
// Owns the decision how many of our threads may load, for the sake of others who read from the
// device.
//
// The device cannot keep up: the front end keeps missing faster than we load, and what our loads
// get of the device has become little.  Then fewer of our threads may load, so that the front end's
// own reads get the device.
//
// Others on the machine wait for the device: then a queue of ours is time that each of their reads
// waits.  For two windows only the floor loads, which shows how long a load takes without one;
// after that as many as do not double that time.  A device that the floor keeps busy loses nothing
// by it.
// Threads: none of its own; the caller locks.
// Paper: section 3.2 (loader is interrupted when I/O bandwidth is insufficient).
#ifndef PPC_DAEMON_CACHE_BANDWIDTH_GOVERNOR_H_
#define PPC_DAEMON_CACHE_BANDWIDTH_GOVERNOR_H_

#include <algorithm>
#include <cstdint>

namespace ppc {

class BandwidthGovernor {
 public:
  struct Options {
    uint64_t window_ns = 100 * 1000 * 1000;
    uint64_t min_demand_bytes = 4 << 20;  // per window; less is no competition
    int bad_windows = 3;                  // in a row before anything is taken away
    uint64_t slow_factor = 4;             // times the least device time per byte
    int floor = 2;                        // threads a node that always may load: no idle device
    double queue_factor = 2;              // times a load without a queue, while others wait
  };

  BandwidthGovernor(Options options, int loaders);

  // The front end missed `bytes`.
  void OnDemand(uint64_t now_ns, uint64_t bytes);
  // One of our loads read `bytes` from the device.
  void OnLoaded(uint64_t now_ns, uint64_t bytes, uint64_t duration_ns);

  // Others, not the front end, wait for I/O; until it is said that they do not.
  void OnNeighbours(bool wait) { neighbours_wait_ = wait; }

  int Allowed(uint64_t now_ns);
  int LastAllowed() const { return std::min(allowed_, neighbour_limit_); }

 private:
  void Roll(uint64_t now_ns);
  void CloseWindow(uint64_t elapsed_ns);
  void LimitForNeighbours(double ns_per_byte);

  const Options options_;
  const int loaders_;
  const int floor_;
  int allowed_;
  int bad_ = 0;
  uint64_t window_start_ns_ = 0;
  uint64_t demand_ = 0;
  uint64_t loaded_ = 0;
  uint64_t busy_ns_ = 0;
  double best_ns_per_byte_ = 0;  // the device's; what was once reached fades.  0 = not known
  bool neighbours_wait_ = false;
  int neighbour_limit_;           // threads that may load while neighbours wait
  int probed_ = 0;                // windows with the floor alone
  double alone_ns_per_byte_ = 0;  // in the second of them
};

}  // namespace ppc

#endif  // PPC_DAEMON_CACHE_BANDWIDTH_GOVERNOR_H_
