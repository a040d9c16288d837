// SPDX-License-Identifier: Apache-2.0
// Owns how far ahead of a reader objects must be requested, from four measurements: the time
// between objects while nothing is missing, the time of a load, the size of a burst, and how often
// an object was late.
// Threads: one at a time.
#ifndef POLICIES_KVTIER_PACE_H_
#define POLICIES_KVTIER_PACE_H_

#include <cstdint>

namespace ppc::kvtier {

class Pace {
 public:
  // The initial pace of the next reader: as fast as this one, from the same device.
  Pace OfNext() const;

  // The reader has reached an object; has_waited: for the disk; was_expected: it should have been
  // cached.
  void Arrive(uint64_t now_ns, bool has_waited, bool was_expected);
  // An object was loaded, this long after the request.
  void Loaded(uint64_t took_ns);

  // Objects.  At least 2, so that one is loaded while the other is read.
  uint64_t Needed() const;
  // Per object; 0: unknown.
  uint64_t step_ns() const { return step_ns_; }
  uint64_t load_ns() const { return load_ns_; }

 private:
  void Count(uint64_t step, bool has_waited);

  // Used while the time of a load is unknown.
  static constexpr uint64_t kUnknown = 64;
  static constexpr uint64_t kMostBurst = 1024;
  static constexpr uint64_t kMostBoost = 1024;
  static constexpr uint64_t kCalm = 4096;  // objects on time before the distance shrinks

  uint64_t arrived_ns_ = 0;
  bool has_waited_ = true;
  bool is_measured_ = false;  // step_ns_ is free of waits
  uint64_t step_ns_ = 0;
  uint64_t load_ns_ = 0;
  uint64_t in_burst_ = 0;  // so far
  uint64_t burst_ = 0;
  uint64_t boost_ = 1;
  uint64_t in_time_ = 0;
  uint64_t since_boost_ = 0;
};

}  // namespace ppc::kvtier

#endif  // POLICIES_KVTIER_PACE_H_
