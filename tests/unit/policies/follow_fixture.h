// SPDX-License-Identifier: Apache-2.0
// What follows one worker that reads one file, for tests; and an evictor of it.
#ifndef PPC_TESTS_UNIT_POLICIES_FOLLOW_FIXTURE_H_
#define PPC_TESTS_UNIT_POLICIES_FOLLOW_FIXTURE_H_

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <vector>

#include "policies/maio/follow/affinity.h"
#include "policies/maio/follow/evictor.h"
#include "tests/unit/policies/template_samples.h"
#include "tests/unit/units.h"

namespace ppc::maio {

inline constexpr uint64_t kDistance = 8 * kMiB;
inline constexpr uint64_t kFileMiB = 1024;

class FollowTest : public ::testing::Test {
 protected:
  void Follow(uint64_t file_bytes, const std::vector<Extent>& extents, bool has_affinity) {
    layout_ = std::make_unique<Layout>(OneReader(file_bytes, extents), std::vector<uint64_t>{1});
    table_ = std::make_unique<PieceTable>(layout_.get());
    matcher_ = std::make_unique<Matcher>(table_.get(), kMiB, kMiB);
    affinity_ = std::make_unique<Affinity>(&context_, *layout_, has_affinity);
    planner_ = std::make_unique<Planner>(table_.get(), matcher_.get(), affinity_.get(), 0, 1);
  }

  ppc_context context_ = {};
  std::unique_ptr<Layout> layout_;
  std::unique_ptr<PieceTable> table_;
  std::unique_ptr<Matcher> matcher_;
  std::unique_ptr<Affinity> affinity_;
  std::unique_ptr<Planner> planner_;
};

// One worker that reads one file of a GiB, all of which is there.
class MaioEvictorTest : public FollowTest {
 protected:
  MaioEvictorTest() {
    Follow(kFileMiB << 20, {{0, 0, kFileMiB * kMiBPages}}, /*has_affinity=*/false);
    evictor_ =
        std::make_unique<Evictor>(table_.get(), matcher_.get(), planner_.get(), kDistance, 1);
    for (uint32_t p = 0; p < layout_->pieces().size(); p++) planner_->Found(p);
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
  static bool NoneHeld(uint64_t, uint64_t, uint64_t) { return false; }
  static ppc_memory Above(uint64_t bytes, uint64_t threshold = 800 * kMiB) {
    ppc_memory memory = {};
    memory.threshold = threshold;
    memory.used = memory.threshold + bytes;
    return memory;
  }
  static ppc_result Evicted(const ppc_io& io) {
    ppc_result result = {};
    result.kind = PPC_EVICTED;
    result.file = io.file;
    result.offset = io.offset;
    result.size = io.size;
    result.cookie = io.cookie;
    return result;
  }
  // Bytes dropped with so much used above the threshold.
  uint64_t Over(uint64_t bytes, uint64_t threshold = 800 * kMiB, uint64_t withheld = 0) {
    ppc_memory memory = Above(bytes, threshold);
    memory.withheld_pages = static_cast<uint32_t>(withheld / kPage);
    IoList list;
    evictor_->Evict(memory, now_ns_, false, NoneHeld, &list);
    uint64_t dropped = 0;
    first_ = ~0ull;
    asked_ = list.ios();
    for (const ppc_io& io : asked_) {
      dropped += io.size;
      first_ = std::min(first_, io.offset);
    }
    return dropped;
  }
  // Drops all that has been passed, as room is asked for step by step; the bytes.
  uint64_t DropPassed() {
    uint64_t dropped = 0;
    uint64_t first = ~0ull;
    evictor_->SetContended(true);
    for (uint64_t part = Over(0); part != 0; part = Over(0)) {
      EXPECT_LE(part, 4 * kEvictStepBytes) << "more than was asked for";
      dropped += part;
      first = std::min(first, first_);
      Report();
    }
    evictor_->SetContended(false);
    first_ = first;
    return dropped;
  }
  // What was asked for last has been dropped.
  void Report() {
    for (const ppc_io& io : asked_) {
      ppc_result result = Evicted(io);
      result.ok = io.size;
      evictor_->Done(result, now_ns_);
    }
  }

  std::unique_ptr<Evictor> evictor_;
  uint64_t seen_mib_ = 0;
  uint64_t first_ = 0;
  uint64_t now_ns_ = 1;
  std::vector<ppc_io> asked_;
};

}  // namespace ppc::maio

#endif  // PPC_TESTS_UNIT_POLICIES_FOLLOW_FIXTURE_H_
