// SPDX-License-Identifier: Apache-2.0
#include "daemon/cache/device_meter.h"

#include <gtest/gtest.h>

#include "tests/unit/units.h"

namespace ppc {
namespace {

// `threads` loads at a time of 2 MiB each, each of which takes so long.
void Load(DeviceMeter* meter, uint64_t* now_ns, int threads, uint64_t step_ns, int rounds) {
  for (int round = 0; round < rounds; ++round) {
    for (int i = 0; i < threads; ++i) meter->Begin(*now_ns);
    *now_ns += step_ns;
    for (int i = 0; i < threads; ++i) meter->End(*now_ns, 2 * kMiB, step_ns);
  }
}

TEST(DeviceMeter, KnowsNothingAtFirst) {
  const DeviceMeter meter;
  EXPECT_EQ(meter.Speed().bytes_per_s, 0u);
  EXPECT_EQ(meter.Speed().step_ns, 0u);
}

TEST(DeviceMeter, WhatIsLoadedWithinAWindowIsMeasured) {
  DeviceMeter meter;
  uint64_t now_ns = 1000 * kMs;
  Load(&meter, &now_ns, 4, 10 * kMs, 2);
  EXPECT_NEAR(static_cast<double>(meter.Speed().step_ns), 10.0 * kMs, 1000.0);
  EXPECT_NEAR(static_cast<double>(meter.Speed().bytes_per_s), 8.0 * kMiB * 100, 1e7);
  meter.Begin(now_ns);
  EXPECT_EQ(meter.Speed().bytes_per_s, 0u) << "of a load that is under way";
  EXPECT_EQ(meter.Speed().step_ns, 0u);
  now_ns += 10 * kMs;
  meter.End(now_ns, 2 * kMiB, 10 * kMs);
  now_ns += 500 * kMs;
  meter.Begin(now_ns);
  EXPECT_NEAR(static_cast<double>(meter.Speed().step_ns), 10.0 * kMs, 1000.0) << "the next one";
}

TEST(DeviceMeter, LoadsSideBySideShareTheTime) {
  DeviceMeter meter;
  uint64_t now_ns = 1000 * kMs;
  Load(&meter, &now_ns, 4, 10 * kMs, 100);
  EXPECT_NEAR(static_cast<double>(meter.Speed().step_ns), 10.0 * kMs, 1000.0);
  EXPECT_NEAR(static_cast<double>(meter.Speed().bytes_per_s), 8.0 * kMiB * 100, 1e7);
}

TEST(DeviceMeter, TimeWithoutLoadsDoesNotCount) {
  DeviceMeter meter;
  uint64_t now_ns = 1000 * kMs;
  for (int i = 0; i < 20; ++i) {
    Load(&meter, &now_ns, 1, 10 * kMs, 1);
    now_ns += 500 * kMs;
  }
  EXPECT_NEAR(static_cast<double>(meter.Speed().bytes_per_s), 2.0 * kMiB * 100, 1e5);
}

TEST(DeviceMeter, BecomingSlowShowsSoonBecomingFastToo) {
  DeviceMeter meter;
  uint64_t now_ns = 1000 * kMs;
  Load(&meter, &now_ns, 1, kMs, 1000);
  Load(&meter, &now_ns, 1, 200 * kMs, 2);
  EXPECT_GE(meter.Speed().step_ns, 100 * kMs);
  Load(&meter, &now_ns, 1, kMs, 1000);
  EXPECT_LE(meter.Speed().step_ns, 2 * kMs);
}

TEST(DeviceMeter, CrumbsAndFailuresSayNothingOfAStep) {
  DeviceMeter meter;
  uint64_t now_ns = 1000 * kMs;
  for (int i = 0; i < 100; ++i) {
    meter.Begin(now_ns);
    now_ns += 5 * kMs;
    meter.End(now_ns, i % 2 == 0 ? 4096 : 0, 5 * kMs);
  }
  EXPECT_EQ(meter.Speed().step_ns, 0u);
  EXPECT_GT(meter.Speed().bytes_per_s, 0u);
}

}  // namespace
}  // namespace ppc
