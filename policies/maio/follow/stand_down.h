// SPDX-License-Identifier: Apache-2.0
//
// Whether misses are so cheap that it does not pay to load far ahead.
//
// Without prefetch a reader waits for its own misses: of its time the share
// (its rate) / (what one load gets alone).  Where that is below a sixteenth for
// the fastest reader, and the device could serve all readers four times over,
// for a second without a break, MAIO stands down: it loads no further than 8 MiB
// ahead of each reader.  That takes page cache and disk time only when they are
// needed, and goes on putting pages on their nodes and measuring the device.  It
// comes back at once when one load gets less than eight times the fastest
// reader's rate, or all loads less than twice all readers' rates.
//
// A reader's rate is that of its fastest second, so neither a pause nor a burst
// counts; one that has read next to nothing counts like the fastest.  Before one
// is known (a second, 4 MiB) nothing is cheap: the initialisation's time is free.
#ifndef POLICIES_MAIO_FOLLOW_STAND_DOWN_H_
#define POLICIES_MAIO_FOLLOW_STAND_DOWN_H_

#include <cstdint>
#include <vector>

#include "policies/maio/follow/matcher.h"

namespace ppc::maio {

// While standing down; a reader takes as long for it as 32 loads in a row, at least.
inline constexpr uint64_t kShortWindow = 8ull << 20;

class StandDown {
 public:
  explicit StandDown(bool on) : on_(on) {}

  // device_rate: bytes a second of all loads together; step_ns: one load of 2 MiB; 0 = not known.
  void Update(uint64_t device_rate, uint64_t step_ns, const std::vector<Cursor>& cursors,
              uint64_t now_ns);

  bool active() const { return active_; }
  // How far ahead of a reader to load, bytes.
  uint64_t window() const { return active_ ? kShortWindow : ~0ull; }
  uint64_t times() const { return times_; }
  uint64_t total_ns(uint64_t now_ns) const {
    return total_ns_ + (active_ ? now_ns - since_ns_ : 0);
  }
  uint64_t device_rate() const { return device_rate_; }
  uint64_t step_ns() const { return step_ns_; }

 private:
  struct Reader {
    uint64_t ns = 0;  // since then it has read what is beyond `consumed`
    uint64_t consumed = 0;
    double peak = 0;  // bytes per ns, 0 = not known
  };
  void LearnRates(const std::vector<Cursor>& cursors, uint64_t now_ns);
  // One load gets at least `alone` times the fastest reader's rate, all loads `together` times all
  // readers'.
  bool IsCheap(double alone, double together) const;

  const bool on_;
  bool active_ = false;
  uint64_t cheap_ns_ = 0;  // misses are cheap since then; 0: they are not
  uint64_t since_ns_ = 0;
  uint64_t total_ns_ = 0;
  uint64_t times_ = 0;
  uint64_t device_rate_ = 0;
  uint64_t step_ns_ = 0;
  std::vector<Reader> readers_;  // per group slot
  double fastest_ = 0;
  double all_ = 0;
};

}  // namespace ppc::maio

#endif  // POLICIES_MAIO_FOLLOW_STAND_DOWN_H_
