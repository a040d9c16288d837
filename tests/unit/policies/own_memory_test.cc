// SPDX-License-Identifier: Apache-2.0
#include "policies/maio/follow/own_memory.h"

#include <gtest/gtest.h>

#include "policies/maio/template/template.h"

namespace ppc::maio {
namespace {

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
  EXPECT_EQ(own.ToLeave(Memory(10 * kOwnMiB), 7, 0, Reads::kNobody, 1), 90 * kOwnMiB);
  EXPECT_EQ(own.ToLeave(Memory(500 * kOwnMiB, 40 * kOwnMiB), 7, 400 * kOwnMiB, Reads::kNobody, 2),
            40 * kOwnMiB);
  EXPECT_EQ(own.taken(), 0u);
  // One of its workers reads, another is to come.
  EXPECT_EQ(own.ToLeave(Memory(480 * kOwnMiB), 7, 400 * kOwnMiB, Reads::kSome, 3), 20 * kOwnMiB);
  EXPECT_EQ(own.ToLeave(Memory(520 * kOwnMiB), 7, 400 * kOwnMiB, Reads::kSome, 4), 0u);
  EXPECT_EQ(own.taken(), 120 * kOwnMiB);
  // What it takes while it reads is another matter.
  EXPECT_EQ(own.ToLeave(Memory(410 * kOwnMiB), 7, 400 * kOwnMiB, Reads::kSome, 3 + kOwnSettleNs),
            0u);
  EXPECT_EQ(own.ToLeave(Memory(900 * kOwnMiB), 7, 400 * kOwnMiB, Reads::kSome, 4 + kOwnSettleNs),
            0u);
  EXPECT_EQ(own.taken(), 120 * kOwnMiB);
}

TEST(OwnMemoryTest, OnceAllReadItIsKnown) {
  OwnMemory own(0);
  (void)own.ToLeave(Memory(120 * kOwnMiB), 7, 20 * kOwnMiB, Reads::kAll, 1);
  (void)own.ToLeave(Memory(320 * kOwnMiB), 7, 20 * kOwnMiB, Reads::kAll, 2);
  EXPECT_EQ(own.taken(), 100 * kOwnMiB);
}

TEST(OwnMemoryTest, MostOfTheMemoryIsTheModelsWhateverWasRecorded) {
  OwnMemory own(900 * kOwnMiB);
  EXPECT_EQ(own.ToLeave(Memory(0), 7, 0, Reads::kNobody, 1), 1000 * kOwnMiB / kMostOwnShare);
}

TEST(OwnMemoryTest, WithoutALimitNothingIsLeftAndItsCgroupSaysWhatItTook) {
  OwnMemory own(100 * kOwnMiB);
  ppc_memory machine = Memory(900 * kOwnMiB, 10 * kOwnMiB);
  machine.is_cgroup = 0;
  EXPECT_EQ(own.ToLeave(machine, 40 * kOwnMiB, 0, Reads::kNobody, 1), 0u);
  EXPECT_EQ(own.ToLeave(machine, 90 * kOwnMiB, 20 * kOwnMiB, Reads::kSome, 2), 0u);
  EXPECT_EQ(own.taken(), 60 * kOwnMiB);
  EXPECT_EQ(own.ToLeave(machine, 90 * kOwnMiB, 20 * kOwnMiB, Reads::kAll, 3), 0u);
  EXPECT_EQ(own.ToLeave(machine, 900 * kOwnMiB, 20 * kOwnMiB, Reads::kAll, 4), 0u);
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
