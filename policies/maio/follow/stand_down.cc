// SPDX-License-Identifier: Apache-2.0
//
// Standing down, see stand_down.h.  Called from the policy's one thread.
#include "policies/maio/follow/stand_down.h"

#include <algorithm>

namespace ppc::maio {
namespace {

constexpr uint64_t kKnownBytes = 4ull << 20;  // a rate means something from here on
constexpr uint64_t kRateNs = 1'000'000'000;
// Readers are seen from beacon to beacon: of a slow one a second shows one beacon or two.
constexpr uint64_t kRateBytes = 64ull << 20;
constexpr uint64_t kSlowRateNs = 2 * kRateNs;
constexpr double kStepBytes = 2ull << 20;
constexpr double kAlone = 16;
constexpr double kTogether = 4;
constexpr double kBack = 2;  // both, to come back
constexpr uint64_t kHoldNs = 1'000'000'000;

}  // namespace

void StandDown::LearnRates(const std::vector<Cursor>& cursors, uint64_t now_ns) {
  readers_.resize(cursors.size());
  fastest_ = all_ = 0;
  for (size_t g = 0; g < cursors.size(); g++) {
    const uint64_t consumed = cursors[g].consumed;
    Reader& reader = readers_[g];
    if (reader.ns == 0 || consumed < reader.consumed) {
      if (consumed != 0) reader = {now_ns, consumed, reader.peak};
    } else if (now_ns >= reader.ns + kSlowRateNs ||
               (now_ns >= reader.ns + kRateNs && consumed >= reader.consumed + kRateBytes)) {
      const double rate =
          static_cast<double>(consumed - reader.consumed) / static_cast<double>(now_ns - reader.ns);
      if (consumed >= kKnownBytes) reader.peak = std::max(reader.peak, rate);
      reader = {now_ns, consumed, reader.peak};
    }
    if (!cursors[g].dropped) fastest_ = std::max(fastest_, reader.peak);
  }
  // Who has read next to nothing yet may be as fast as any.
  for (size_t g = 0; g < cursors.size(); g++) {
    if (!cursors[g].dropped) all_ += readers_[g].peak > 0 ? readers_[g].peak : fastest_;
  }
}

bool StandDown::IsCheap(double alone, double together) const {
  if (fastest_ == 0 || device_rate_ == 0 || step_ns_ == 0) return false;
  return kStepBytes / static_cast<double>(step_ns_) >= alone * fastest_ &&
         static_cast<double>(device_rate_) / 1e9 >= together * all_;
}

void StandDown::Update(uint64_t device_rate, uint64_t step_ns, const std::vector<Cursor>& cursors,
                       uint64_t now_ns) {
  device_rate_ = device_rate;
  step_ns_ = step_ns;
  if (!on_) return;
  LearnRates(cursors, now_ns);
  if (active_ && !IsCheap(kAlone / kBack, kTogether / kBack)) {
    active_ = false;
    total_ns_ += now_ns - since_ns_;
    cheap_ns_ = 0;
  }
  if (!active_) {
    if (!IsCheap(kAlone, kTogether)) {
      cheap_ns_ = 0;
    } else if (cheap_ns_ == 0) {
      cheap_ns_ = now_ns;
    } else if (now_ns >= cheap_ns_ + kHoldNs) {
      active_ = true;
      since_ns_ = now_ns;
      times_++;
    }
  }
}

}  // namespace ppc::maio
