// SPDX-License-Identifier: Apache-2.0
#include "daemon/supervisor/restart_backoff.h"

#include <gtest/gtest.h>

#include "daemon/base/clock.h"

namespace ppc::control {
namespace {

constexpr uint64_t kHourNs = 3600 * kNsPerSec;

TEST(RestartBackoff, PausesDoubleUntilTooManyHaveDiedSoon) {
  const Options options{.first_back_off = Millis(200), .max_quick_deaths = 4};
  RestartBackoff backoff(options);
  backoff.Running(0);
  EXPECT_EQ(backoff.Died(kNsPerSec, true), Millis(200));
  EXPECT_EQ(backoff.Died(kNsPerSec, false), Millis(400));
  EXPECT_EQ(backoff.Died(kNsPerSec, false), Millis(800));
  EXPECT_EQ(backoff.Died(kNsPerSec, false), std::nullopt);
  EXPECT_EQ(backoff.DeathsInARow(), 4);
  EXPECT_EQ(backoff.Restarts(), 3u);
}

TEST(RestartBackoff, WhoRanForLongHasDiedForTheFirstTime) {
  const Options options{.first_back_off = Millis(200), .quick_death = Millis(10000)};
  RestartBackoff backoff(options);
  backoff.Running(0);
  EXPECT_EQ(backoff.Died(kNsPerSec, true), Millis(200));
  backoff.Running(2 * kNsPerSec);
  EXPECT_EQ(backoff.Died(13 * kNsPerSec, true), Millis(200));
  EXPECT_EQ(backoff.DeathsInARow(), 0);
}

TEST(RestartBackoff, AFailedPolicyIsTriedAgainLaterEachTimeButWithinTheHour) {
  const Options options{.first_retry = Millis(60000), .max_quick_deaths = 1};
  RestartBackoff backoff(options);
  // It was there before ppcd came, and has not run since, however long the machine has.
  EXPECT_EQ(backoff.Failed(5 * kHourNs), Millis(60000));
  EXPECT_EQ(backoff.Failed(7 * kHourNs), Millis(120000));
  for (int i = 0; i < 10; ++i) backoff.Failed(8 * kHourNs);
  EXPECT_EQ(backoff.Failed(9 * kHourNs), Millis(3600000));
  backoff.TryAgain();
  backoff.Running(10 * kHourNs);
  EXPECT_EQ(backoff.Failed(10 * kHourNs + kNsPerSec), Millis(3600000));
  backoff.Running(11 * kHourNs);
  EXPECT_EQ(backoff.Failed(13 * kHourNs), Millis(60000));
}

}  // namespace
}  // namespace ppc::control
