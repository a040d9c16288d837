// SPDX-License-Identifier: Apache-2.0
#include "policies/maio/follow/load_end.h"

#include <gtest/gtest.h>

#include "tests/unit/units.h"

namespace ppc::maio {
namespace {

constexpr uint64_t kModelBytes = 512 * kMiB;

class LoadEndTest : public ::testing::Test {
 protected:
  // Asks at each tick for so long; whether the load has ended by then.
  bool After(uint64_t ns, uint64_t read_bytes, bool is_at_end) {
    bool has_ended = false;
    for (const uint64_t until = now_ns_ + ns; now_ns_ < until && !has_ended;) {
      now_ns_ += 200 * kMs;
      has_ended = end_.HasEnded(read_bytes, read_bytes, is_at_end, now_ns_);
    }
    return has_ended;
  }

  static constexpr uint64_t kMs = 1'000'000;
  LoadEnd end_;
  uint64_t now_ns_ = kMs;
};

TEST_F(LoadEndTest, ReadersThatStayAtTheEndHaveEnded) {
  EXPECT_FALSE(After(kAtEndNs / 2, kModelBytes, true));
  EXPECT_TRUE(After(kAtEndNs, kModelBytes, true));
}

// A service that has populated its mapping computes from it at once: its reader goes back to the
// beginning, and finds next to nothing that it has not read.
TEST_F(LoadEndTest, AReaderThatGoesBackForNothingNewHasEnded) {
  EXPECT_FALSE(After(kAtEndNs / 2, kModelBytes, true));
  EXPECT_TRUE(end_.is_at_end());
  EXPECT_FALSE(After(kAtEndNs / 4, kModelBytes + 2 * kMiB, false));
  EXPECT_TRUE(end_.is_at_end());
  EXPECT_TRUE(After(kAtEndNs, kModelBytes + 2 * kMiB, false));
}

TEST_F(LoadEndTest, ASecondModelIsALoadThatGoesOn) {
  EXPECT_FALSE(After(kAtEndNs / 2, kModelBytes, true));
  EXPECT_FALSE(After(2 * kAtEndNs, kModelBytes + kSubstantialBytes + kMiB, false));
  EXPECT_FALSE(end_.is_at_end());
}

TEST_F(LoadEndTest, AModelThatIsLeftInTheMiddleHasEndedAfterARest) {
  EXPECT_FALSE(After(kQuietNs / 2, kModelBytes / 2, false));
  EXPECT_TRUE(After(kQuietNs, kModelBytes / 2, false));
}

// Each part is read within the rest that would end the load.
TEST_F(LoadEndTest, ASlowReaderKeepsItsLoadGoing) {
  for (uint64_t part = 1; part <= 4; part++)
    EXPECT_FALSE(After(kQuietNs - 1000 * kMs, kModelBytes / 4 * part, false)) << part;
}

// Headers alone are no model.
TEST_F(LoadEndTest, ALookAtTheHeadersHasNoEnd) {
  EXPECT_FALSE(After(10 * kQuietNs, kSubstantialBytes / 2, false));
}

}  // namespace
}  // namespace ppc::maio
