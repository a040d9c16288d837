// SPDX-License-Identifier: Apache-2.0
// The modelled device: its rate, its buffer, and that a stall is never made good.
#include "tools/model/loadmodel/device_clock.h"

#include <gtest/gtest.h>

namespace ppc::bench {
namespace {

constexpr double kRate = 1e9;  // one byte per ns

TEST(DeviceClock, TakesItsTimePerByte) {
  DeviceClock clock(kRate, 4);
  for (int i = 0; i < 10; ++i) clock.Submit(1000, 100);
  EXPECT_EQ(clock.IdleAt(), 2000u);
}

TEST(DeviceClock, HostIsAheadByTheBufferOnly) {
  DeviceClock clock(kRate, 2);
  EXPECT_EQ(clock.FreeAt(), 0u);
  clock.Submit(0, 100);
  EXPECT_EQ(clock.FreeAt(), 0u);  // the second piece is still empty
  clock.Submit(0, 100);
  EXPECT_EQ(clock.FreeAt(), 100u);  // the first piece is done then
  clock.Submit(100, 100);
  EXPECT_EQ(clock.FreeAt(), 200u);
}

TEST(DeviceClock, LateWakeUpsWithinTheBufferDoNotAddUp) {
  DeviceClock clock(kRate, 4);
  for (int i = 0; i < 100; ++i) clock.Submit(clock.FreeAt() + 50, 100);
  EXPECT_EQ(clock.IdleAt(), 10050u);
}

TEST(DeviceClock, AStallIsNotMadeGood) {
  DeviceClock clock(kRate, 4);
  clock.Submit(0, 100);
  clock.Submit(5000, 100);
  clock.Submit(5000, 100);
  EXPECT_EQ(clock.IdleAt(), 5200u);
}

TEST(DeviceClock, NoRateMeansNoTime) {
  DeviceClock clock(0, 2);
  clock.Submit(10, 1 << 20);
  EXPECT_EQ(clock.IdleAt(), 10u);
}

}  // namespace
}  // namespace ppc::bench
