// SPDX-License-Identifier: Apache-2.0
#include "daemon/supervisor/restart_backoff.h"

#include <algorithm>

#include "daemon/base/clock.h"

namespace ppc::control {
namespace {

constexpr Millis kLongestRetry = std::chrono::hours(1);
constexpr int kMostDoublings = 6;

uint64_t Ns(Millis time) { return static_cast<uint64_t>(time.count()) * kNsPerMs; }

}  // namespace

std::optional<Millis> RestartBackoff::Died(uint64_t now_ns, bool did_run) {
  const bool was_quick =
      !did_run || !running_since_ns_ || now_ns - *running_since_ns_ < Ns(options_.quick_death);
  deaths_ = was_quick ? deaths_ + 1 : 0;
  if (deaths_ >= options_.max_quick_deaths) return std::nullopt;
  ++restarts_;
  return options_.first_back_off * (1 << std::max(deaths_ - 1, 0));
}

Millis RestartBackoff::Failed(uint64_t now_ns) {
  // A runner that has lived as long as the longest pause begins anew.
  if (running_since_ns_ && now_ns - *running_since_ns_ > Ns(kLongestRetry)) failures_ = 0;
  running_since_ns_.reset();
  const Millis pause =
      std::min(options_.first_retry * (1 << std::min(failures_, kMostDoublings)), kLongestRetry);
  ++failures_;
  return pause;
}

void RestartBackoff::TryAgain() {
  deaths_ = 0;
  ++restarts_;
}

}  // namespace ppc::control
