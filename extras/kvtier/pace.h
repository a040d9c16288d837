// SPDX-License-Identifier: Apache-2.0
// Owns how far ahead of a reader objects must be asked for, from four measurements: the time from
// one object to the next while nothing is missing, the time that a load takes, how many come at
// once, and how often one came too late.
// Threads: one at a time.
#ifndef POLICIES_KVTIER_PACE_H_
#define POLICIES_KVTIER_PACE_H_

#include <cstdint>

namespace ppc::kvtier {

class Pace {
 public:
  // What the next reader is expected to be like: as fast as this one, from the same device.
  Pace OfNext() const;

  // The reader has come to an object; has_waited: for the disk; was_expected: it was to be there.
  void Arrive(uint64_t now_ns, bool has_waited, bool was_expected);
  // One that was loaded for it, from the question to the answer.
  void Loaded(uint64_t took_ns);

  // Objects.  2 at least, so that one is loaded while the other is read.
  uint64_t Needed() const;
  // For one object; 0: unknown.
  uint64_t step_ns() const { return step_ns_; }
  uint64_t load_ns() const { return load_ns_; }

 private:
  void Count(uint64_t step, bool has_waited);

  // While the time of a load is unknown.
  static constexpr uint64_t kUnknown = 64;
  static constexpr uint64_t kMostBurst = 1024;
  static constexpr uint64_t kMostBoost = 1024;
  static constexpr uint64_t kCalm = 4096;  // objects in time, until less is enough

  uint64_t arrived_ns_ = 0;
  bool has_waited_ = true;
  bool is_measured_ = false;  // step_ns_ is without any waiting
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
