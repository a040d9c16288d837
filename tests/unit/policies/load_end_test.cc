// SPDX-License-Identifier: Apache-2.0
// What a start shows of itself: when its load has ended, what memory it takes.
#include "policies/maio/follow/load_end.h"

#include <gtest/gtest.h>

#include "policies/maio/follow/own_memory.h"
#include "policies/maio/template/template.h"
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

// The recorder tells so late that it was new: what counts is when it was read.
TEST_F(LoadEndTest, WhatIsToldLateOfTheLoadDoesNotProlongIt) {
  const uint64_t read_ns = now_ns_ + 200 * kMs;
  EXPECT_FALSE(After(kQuietNs / 2, kModelBytes, false));
  EXPECT_FALSE(end_.HasEnded(kModelBytes, kModelBytes, false, read_ns + kQuietNs - 1, read_ns));
  EXPECT_TRUE(end_.HasEnded(kModelBytes, kModelBytes, false, read_ns + kQuietNs, read_ns));
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

constexpr uint64_t kOwnMiB = 1 << 20;

ppc_memory Memory(uint64_t used, uint64_t inflight = 0) {
  ppc_memory memory = {};
  memory.is_cgroup = 1;
  memory.threshold = 1000 * kOwnMiB;
  memory.used = used;
  memory.inflight = inflight;
  return memory;
}

TEST(OwnMemoryTest, WhatIsStillToBeTakenIsLeft) {
  OwnMemory own(100 * kOwnMiB);
  EXPECT_EQ(own.RoomToLeave(Memory(10 * kOwnMiB), 7, 0, ReadingWorkers::kNone, 1), 90 * kOwnMiB);
  EXPECT_EQ(own.RoomToLeave(Memory(500 * kOwnMiB, 40 * kOwnMiB), 7, 400 * kOwnMiB,
                            ReadingWorkers::kNone, 2),
            40 * kOwnMiB);
  EXPECT_EQ(own.taken(), 0u);
  // One of its workers reads, another is to come.
  EXPECT_EQ(own.RoomToLeave(Memory(480 * kOwnMiB), 7, 400 * kOwnMiB, ReadingWorkers::kSome, 3),
            20 * kOwnMiB);
  EXPECT_EQ(own.RoomToLeave(Memory(520 * kOwnMiB), 7, 400 * kOwnMiB, ReadingWorkers::kSome, 4), 0u);
  EXPECT_EQ(own.taken(), 120 * kOwnMiB);
  // What it takes while it reads is another matter.
  EXPECT_EQ(own.RoomToLeave(Memory(410 * kOwnMiB), 7, 400 * kOwnMiB, ReadingWorkers::kSome,
                            3 + kOwnSettleNs),
            0u);
  EXPECT_EQ(own.RoomToLeave(Memory(900 * kOwnMiB), 7, 400 * kOwnMiB, ReadingWorkers::kSome,
                            4 + kOwnSettleNs),
            0u);
  EXPECT_EQ(own.taken(), 120 * kOwnMiB);
}

TEST(OwnMemoryTest, OnceAllReadItIsKnown) {
  OwnMemory own(0);
  (void)own.RoomToLeave(Memory(120 * kOwnMiB), 7, 20 * kOwnMiB, ReadingWorkers::kAll, 1);
  (void)own.RoomToLeave(Memory(320 * kOwnMiB), 7, 20 * kOwnMiB, ReadingWorkers::kAll, 2);
  EXPECT_EQ(own.taken(), 100 * kOwnMiB);
}

TEST(OwnMemoryTest, MostOfTheMemoryIsTheModelsWhateverWasRecorded) {
  OwnMemory own(900 * kOwnMiB);
  EXPECT_EQ(own.RoomToLeave(Memory(0), 7, 0, ReadingWorkers::kNone, 1),
            1000 * kOwnMiB / kMostOwnShare);
}

TEST(OwnMemoryTest, WithoutALimitNothingIsLeftAndItsCgroupSaysWhatItTook) {
  OwnMemory own(100 * kOwnMiB);
  ppc_memory machine = Memory(900 * kOwnMiB, 10 * kOwnMiB);
  machine.is_cgroup = 0;
  EXPECT_EQ(own.RoomToLeave(machine, 40 * kOwnMiB, 0, ReadingWorkers::kNone, 1), 0u);
  EXPECT_EQ(own.RoomToLeave(machine, 90 * kOwnMiB, 20 * kOwnMiB, ReadingWorkers::kSome, 2), 0u);
  EXPECT_EQ(own.taken(), 60 * kOwnMiB);
  EXPECT_EQ(own.RoomToLeave(machine, 90 * kOwnMiB, 20 * kOwnMiB, ReadingWorkers::kAll, 3), 0u);
  EXPECT_EQ(own.RoomToLeave(machine, 900 * kOwnMiB, 20 * kOwnMiB, ReadingWorkers::kAll, 4), 0u);
  EXPECT_EQ(own.taken(), 60 * kOwnMiB);
}

TEST(OwnMemoryTest, ItIsAmongTheMetadataOfATemplate) {
  Template t;
  for (const char* meta : {"{}", "[7]", "no JSON", R"({"own_bytes":-1})", R"({"own_bytes":"7"})"}) {
    t.meta = meta;
    EXPECT_EQ(OwnBytes(t), 0u) << meta;
  }
  t.meta = R"({"own_bytes":7,"workers":1})";
  EXPECT_EQ(OwnBytes(t), 7u);
}

}  // namespace
}  // namespace ppc::maio
