// SPDX-License-Identifier: Apache-2.0
//
// What is dropped when memory is short.
#include "policies/maio/evictor.h"

#include <gtest/gtest.h>

#include <memory>

#include "policies/maio/affinity.h"

namespace ppc::maio {
namespace {

constexpr uint64_t kMiB = 1 << 20;
constexpr uint64_t kMiBPages = 256;
constexpr uint64_t kDistance = 8 * kMiB;
constexpr uint64_t kFileMiB = 1024;

// One worker that reads one file of a GiB, all of which is there.
class MaioEvictorTest : public ::testing::Test {
 protected:
  MaioEvictorTest() {
    Template t;
    t.service_id = "abcd";
    t.files.push_back({"f", kFileMiB << 20, 0, FileKind::kSafetensors, {}});
    TemplateGroup g;
    g.extents.push_back({0, 0, kFileMiB * kMiBPages});
    t.groups = {g};
    layout_ = std::make_unique<Layout>(t, std::vector<uint64_t>{1});
    matcher_ = std::make_unique<Matcher>(layout_.get(), kMiB, kMiB);
    affinity_ = std::make_unique<Affinity>(&context_, *layout_, false);
    planner_ = std::make_unique<Planner>(layout_.get(), matcher_.get(), affinity_.get(), 0, 0, 1);
    evictor_ =
        std::make_unique<Evictor>(layout_.get(), matcher_.get(), planner_.get(), kDistance, 1);
    for (uint32_t p = 0; p < layout_->pieces().size(); p++)
      planner_->SetState(p, PieceState::kResident);
  }
  // Reads up to there, or is populated so far by a fault that is not a use.
  void See(uint64_t mib, bool user) {
    for (; seen_mib_ <= mib; seen_mib_++) {
      Observation o;
      o.first_page = seen_mib_ * kMiBPages;
      o.end_page = o.first_page + 1;
      o.user = user;
      o.now_ns = 1;
      matcher_->Observe(o);
    }
  }
  // Bytes dropped with so much used above the threshold.
  uint64_t Over(uint64_t bytes, uint64_t threshold = 800 * kMiB) {
    ppc_memory memory = {};
    memory.threshold = threshold;
    memory.used = memory.threshold + bytes;
    IoList list;
    const auto held = [](uint64_t, uint64_t, uint64_t) { return false; };
    evictor_->Evict(memory, 1, false, held, &list);
    uint64_t dropped = 0;
    first_ = ~0ull;
    for (const ppc_io& io : list.ios()) {
      dropped += io.size;
      first_ = std::min(first_, io.offset);
    }
    return dropped;
  }

  ppc_context context_ = {};
  std::unique_ptr<Layout> layout_;
  std::unique_ptr<Matcher> matcher_;
  std::unique_ptr<Affinity> affinity_;
  std::unique_ptr<Planner> planner_;
  std::unique_ptr<Evictor> evictor_;
  uint64_t seen_mib_ = 0;
  uint64_t first_ = 0;
};

TEST_F(MaioEvictorTest, WhatIsReadFromTheDistanceOnIsDropped) {
  See(100, true);
  const uint64_t dropped = Over(0);
  EXPECT_GE(dropped, 84 * kMiB);
  EXPECT_LE(dropped, 92 * kMiB);
  EXPECT_EQ(first_, 0u);
}

TEST_F(MaioEvictorTest, ALittleAboveTheThresholdNothingAheadIsDropped) {
  See(6, true);  // all of it within the distance
  EXPECT_EQ(Over(4 * kMiB), 0u);
}

TEST_F(MaioEvictorTest, MoreThanIsSoonBurntIsDroppedFromTheEnd) {
  See(6, true);
  const uint64_t dropped = Over(20 * kMiB);
  EXPECT_GE(dropped, 14 * kMiB);
  EXPECT_LE(dropped, 22 * kMiB);
  EXPECT_GE(first_, (kFileMiB - 24) * kMiB);
}

TEST_F(MaioEvictorTest, LittleMemoryToleratesLittle) {
  See(6, true);
  EXPECT_GE(Over(4 * kMiB, 16 * kMiB), 3 * kMiB);
}

// Populated pages are not used: nothing will be burnt soon.
TEST_F(MaioEvictorTest, PopulatingPromisesNoRoom) {
  See(6, false);
  EXPECT_GE(Over(4 * kMiB), 4 * kMiB);
}

}  // namespace
}  // namespace ppc::maio
