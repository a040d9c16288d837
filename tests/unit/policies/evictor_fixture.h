// SPDX-License-Identifier: Apache-2.0
// An evictor of one worker that reads one file, for tests.
#ifndef PPC_TESTS_UNIT_POLICIES_EVICTOR_FIXTURE_H_
#define PPC_TESTS_UNIT_POLICIES_EVICTOR_FIXTURE_H_

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <vector>

#include "policies/maio/follow/affinity.h"
#include "policies/maio/follow/evictor.h"
#include "tests/unit/units.h"

namespace ppc::maio {

inline constexpr uint64_t kDistance = 8 * kMiB;
inline constexpr uint64_t kFileMiB = 1024;

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
    table_ = std::make_unique<PieceTable>(layout_.get());
    matcher_ = std::make_unique<Matcher>(table_.get(), kMiB, kMiB);
    affinity_ = std::make_unique<Affinity>(&context_, *layout_, false);
    planner_ = std::make_unique<Planner>(table_.get(), matcher_.get(), affinity_.get(), 0, 1);
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
  // Bytes dropped with so much used above the threshold.
  uint64_t Over(uint64_t bytes, uint64_t threshold = 800 * kMiB, uint64_t withheld = 0) {
    ppc_memory memory = {};
    memory.withheld_pages = static_cast<uint32_t>(withheld / kPage);
    memory.threshold = threshold;
    memory.used = memory.threshold + bytes;
    IoList list;
    const auto held = [](uint64_t, uint64_t, uint64_t) { return false; };
    evictor_->Evict(memory, now_ns_, false, held, &list);
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
      ppc_result result = {};
      result.kind = PPC_EVICTED;
      result.file = io.file;
      result.offset = io.offset;
      result.size = result.ok = io.size;
      result.cookie = io.cookie;
      evictor_->Done(result, now_ns_);
    }
  }

  ppc_context context_ = {};
  std::unique_ptr<Layout> layout_;
  std::unique_ptr<PieceTable> table_;
  std::unique_ptr<Matcher> matcher_;
  std::unique_ptr<Affinity> affinity_;
  std::unique_ptr<Planner> planner_;
  std::unique_ptr<Evictor> evictor_;
  uint64_t seen_mib_ = 0;
  uint64_t first_ = 0;
  uint64_t now_ns_ = 1;
  std::vector<ppc_io> asked_;
};

}  // namespace ppc::maio

#endif  // PPC_TESTS_UNIT_POLICIES_EVICTOR_FIXTURE_H_
