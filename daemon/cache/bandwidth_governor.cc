// SPDX-License-Identifier: Apache-2.0
#include "daemon/cache/bandwidth_governor.h"

#include <algorithm>

namespace ppc {

BandwidthGovernor::BandwidthGovernor(Options options, int loaders)
    : options_(options),
      loaders_(loaders),
      floor_(std::min(std::max(options.floor, 1), std::max(loaders, 1))),
      allowed_(loaders),
      neighbour_limit_(loaders) {}

void BandwidthGovernor::LimitForNeighbours(double ns_per_byte) {
  constexpr int kProbes = 2;  // in the first there are loads that others had begun
  if (!neighbours_wait_) {
    neighbour_limit_ = loaders_;
    probed_ = 0;
  } else if (ns_per_byte == 0) {
    // Nothing was loaded: nothing is known.
  } else if (probed_ == 0) {
    neighbour_limit_ = floor_;
    ++probed_;
  } else if (probed_ <= kProbes) {
    alone_ns_per_byte_ = ns_per_byte;
    ++probed_;
  } else if (ns_per_byte > alone_ns_per_byte_ * options_.queue_factor) {
    neighbour_limit_ = std::max(floor_, neighbour_limit_ / 2);
  } else {
    alone_ns_per_byte_ = std::min(alone_ns_per_byte_, ns_per_byte);
    neighbour_limit_ = std::min(loaders_, neighbour_limit_ + 1);
  }
}

void BandwidthGovernor::CloseWindow(uint64_t elapsed_ns) {
  constexpr double kFadePerWindow = 1.01;
  const auto per_byte = [this](uint64_t ns) {
    return loaded_ == 0 ? 0 : static_cast<double>(ns) / static_cast<double>(loaded_);
  };
  const double ns_per_byte = per_byte(busy_ns_);
  // The device's own: loads of many threads take longer each, the more there are.
  const double device_ns_per_byte = per_byte(std::min(busy_ns_, elapsed_ns));
  best_ns_per_byte_ *= kFadePerWindow;
  if (device_ns_per_byte > 0 && (best_ns_per_byte_ == 0 || device_ns_per_byte < best_ns_per_byte_))
    best_ns_per_byte_ = device_ns_per_byte;
  const bool slow =
      device_ns_per_byte > best_ns_per_byte_ * static_cast<double>(options_.slow_factor);
  const bool behind = demand_ >= options_.min_demand_bytes && demand_ > loaded_ && loaded_ > 0;
  if (behind && slow) {
    if (++bad_ >= options_.bad_windows) {
      allowed_ = std::max(floor_, allowed_ / 2);
      bad_ = 0;
    }
  } else {
    bad_ = 0;
    allowed_ = std::min(loaders_, allowed_ + 1);
  }
  LimitForNeighbours(ns_per_byte);
  demand_ = loaded_ = busy_ns_ = 0;
}

void BandwidthGovernor::Roll(uint64_t now_ns) {
  if (now_ns < window_start_ns_ + options_.window_ns) return;
  CloseWindow(now_ns - window_start_ns_);
  // Windows without anything in them let the threads come back one by one.
  const uint64_t idle = (now_ns - window_start_ns_) / options_.window_ns - 1;
  if (window_start_ns_ != 0 && idle > 0) {
    const uint64_t back = std::min<uint64_t>(idle, static_cast<uint64_t>(loaders_));
    allowed_ = std::min(loaders_, allowed_ + static_cast<int>(back));
    bad_ = 0;
  }
  window_start_ns_ = now_ns;
}

void BandwidthGovernor::OnDemand(uint64_t now_ns, uint64_t bytes) {
  Roll(now_ns);
  demand_ += bytes;
}

void BandwidthGovernor::OnLoaded(uint64_t now_ns, uint64_t bytes, uint64_t duration_ns) {
  Roll(now_ns);
  loaded_ += bytes;
  busy_ns_ += duration_ns;
}

int BandwidthGovernor::Allowed(uint64_t now_ns) {
  Roll(now_ns);
  return LastAllowed();
}

}  // namespace ppc
