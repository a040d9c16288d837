// SPDX-License-Identifier: Apache-2.0
#include "daemon/supervisor/comebacks.h"

#include <gtest/gtest.h>

#include "daemon/base/clock.h"

namespace ppc::control {
namespace {

constexpr uint64_t kHourNs = 3600 * kNsPerSec;

TEST(Comebacks, PausesDoubleUntilTooManyHaveDiedSoon) {
  const Options options{.first_back_off = Millis(200), .max_quick_deaths = 4};
  Comebacks comebacks(options);
  comebacks.Running(0);
  EXPECT_EQ(comebacks.Died(kNsPerSec, true), Millis(200));
  EXPECT_EQ(comebacks.Died(kNsPerSec, false), Millis(400));
  EXPECT_EQ(comebacks.Died(kNsPerSec, false), Millis(800));
  EXPECT_EQ(comebacks.Died(kNsPerSec, false), std::nullopt);
  EXPECT_EQ(comebacks.DeathsInARow(), 4);
  EXPECT_EQ(comebacks.Restarts(), 3u);
}

TEST(Comebacks, WhoRanForLongHasDiedForTheFirstTime) {
  const Options options{.first_back_off = Millis(200), .quick_death = Millis(10000)};
  Comebacks comebacks(options);
  comebacks.Running(0);
  EXPECT_EQ(comebacks.Died(kNsPerSec, true), Millis(200));
  comebacks.Running(2 * kNsPerSec);
  EXPECT_EQ(comebacks.Died(13 * kNsPerSec, true), Millis(200));
  EXPECT_EQ(comebacks.DeathsInARow(), 0);
}

TEST(Comebacks, AFailedPolicyIsTriedAgainLaterEachTimeButWithinTheHour) {
  const Options options{.first_retry = Millis(60000), .max_quick_deaths = 1};
  Comebacks comebacks(options);
  // It was there before ppcd came, and has not run since, however long the machine has.
  EXPECT_EQ(comebacks.Failed(5 * kHourNs), Millis(60000));
  EXPECT_EQ(comebacks.Failed(7 * kHourNs), Millis(120000));
  for (int i = 0; i < 10; ++i) comebacks.Failed(8 * kHourNs);
  EXPECT_EQ(comebacks.Failed(9 * kHourNs), Millis(3600000));
  comebacks.TryAgain();
  comebacks.Running(10 * kHourNs);
  EXPECT_EQ(comebacks.Failed(10 * kHourNs + kNsPerSec), Millis(3600000));
  comebacks.Running(11 * kHourNs);
  EXPECT_EQ(comebacks.Failed(13 * kHourNs), Millis(60000));
}

}  // namespace
}  // namespace ppc::control
