// SPDX-License-Identifier: Apache-2.0
//
// Wrong-node leftovers of an earlier run.
#include "policies/maio/follow/leftovers.h"

#include <gtest/gtest.h>

#include <memory>

#include "policies/maio/base/config.h"
#include "tests/unit/units.h"

namespace ppc::maio {
namespace {

constexpr uint32_t kAheadS = 30;
constexpr uint64_t kFirstCookie = 1ull << 40;

// Where everything lies, as the kernel would tell.
struct Kernel {
  int node = 1;
  uint64_t elsewhere = 0;  // bytes of each look that lie on node 0 all the same
  uint64_t mapped = 0;
  uint64_t looks = 0;
  int error = 0;
};
Kernel g_kernel;

class LeftoversTest : public ::testing::Test {
 protected:
  LeftoversTest() {
    g_kernel = Kernel();
    context_.nr_nodes = 2;
    context_.xpu_node = [](const ppc_context*, int32_t xpu) { return int{xpu}; };
    context_.resident = [](const ppc_context*, uint64_t, uint64_t, uint64_t size,
                           ppc_residency* out, uint8_t*, size_t) {
      g_kernel.looks++;
      out->resident = size;
      out->node[g_kernel.node] = size - g_kernel.elsewhere;
      out->node[1 - g_kernel.node] = g_kernel.elsewhere;
      out->mapped = g_kernel.mapped;
      return g_kernel.error;
    };
  }
  // Two workers with a file each, and one that both read.
  void Build(uint64_t mib) {
    Template t;
    t.service_id = "abcd";
    const uint64_t pages = mib * kMiBPages;
    for (uint32_t f = 0; f < 3; f++) {
      t.files.push_back({"f" + std::to_string(f), mib << 20, 0, FileKind::kSafetensors, {}});
    }
    for (uint32_t w = 0; w < 2; w++) {
      TemplateGroup g;
      g.id = w;
      g.extents = {{w, 0, static_cast<uint32_t>(pages)}, {2, 0, static_cast<uint32_t>(pages)}};
      t.groups.push_back(g);
    }
    std::vector<uint64_t> numbers = {1, 2, 3};
    layout_ = std::make_unique<Layout>(t, numbers);
    table_ = std::make_unique<PieceTable>(layout_.get());
    matcher_ = std::make_unique<Matcher>(table_.get(), 1 << 20, 1 << 20);
    affinity_ = std::make_unique<Affinity>(&context_, *layout_, true);
    for (uint32_t w = 0; w < 2; w++) affinity_->Bind(w, static_cast<int32_t>(w));
    planner_ = std::make_unique<Planner>(table_.get(), matcher_.get(), affinity_.get(), 0, 1);
    leftovers_ =
        std::make_unique<Leftovers>(&context_, table_.get(), matcher_.get(), planner_.get(),
                                    affinity_.get(), kAheadS, kFirstCookie);
  }
  // Plans so much, and everything turns out to be there.
  std::vector<ppc_io> Plan(uint64_t bytes = ~0ull >> 2) {
    ppc_memory memory = {};
    memory.threshold = memory.room = ~0ull >> 1;
    IoList list;
    planner_->Plan(bytes, memory, now_ns_, &list);
    return list.ios();
  }
  void Answer(const std::vector<ppc_io>& loads) {
    for (const ppc_io& io : loads) {
      ppc_result result = {};
      result.kind = PPC_LOADED;
      result.file = io.file;
      result.offset = io.offset;
      result.size = result.resident = io.size;
      result.cookie = io.cookie;
      planner_->Done(result, 1);
      leftovers_->Found(result);
    }
  }
  // Each worker reads the beginning of its own file, a MiB a second.
  void Read(uint64_t mib) {
    for (uint64_t at = 0; at <= mib; at++) {
      now_ns_ += 1'000'000'000;
      for (uint32_t w = 0; w < 2; w++) {
        Observation o;
        o.group = o.file = w;
        o.first_page = at * kMiBPages;
        o.end_page = o.first_page + 1;
        o.now_ns = now_ns_;
        matcher_->Observe(o);
      }
    }
  }
  std::vector<ppc_io> Evict(bool held = false) {
    IoList list;
    leftovers_->Evict(
        now_ns_, [held](uint64_t, uint64_t, uint64_t) { return held; }, &list);
    return list.ios();
  }
  // All that many ticks ask for.
  std::vector<ppc_io> EvictMuch(bool held = false) {
    std::vector<ppc_io> all;
    for (int i = 0; i < 10; i++) {
      for (const ppc_io& io : Evict(held)) all.push_back(io);
    }
    return all;
  }
  bool Dropped(const ppc_io& io, uint64_t ok) {
    ppc_result result = {};
    result.kind = PPC_EVICTED;
    result.cookie = io.cookie;
    result.size = io.size;
    result.ok = ok;
    return leftovers_->Done(result);
  }

  ppc_context context_ = {};
  std::unique_ptr<Layout> layout_;
  std::unique_ptr<PieceTable> table_;
  std::unique_ptr<Matcher> matcher_;
  std::unique_ptr<Affinity> affinity_;
  std::unique_ptr<Planner> planner_;
  std::unique_ptr<Leftovers> leftovers_;
  uint64_t now_ns_ = 1'000'000'000;
};

TEST_F(LeftoversTest, FarAheadIsDroppedAndLoadedAgainWhereItBelongs) {
  Build(100);
  Answer(Plan());
  Read(20);
  const std::vector<ppc_io> all = EvictMuch();
  uint64_t bytes = 0;
  uint64_t own = 0;
  for (const ppc_io& io : all) {
    // Worker 1's own lies where it should; what both read is spread over the nodes by 2 MiB.
    EXPECT_TRUE(io.file == 1 || (io.file == 3 && (io.offset >> 21) % 2 == 0)) << io.offset;
    EXPECT_EQ(io.flags, 0u);
    bytes += io.size;
    if (io.file != 1) continue;
    EXPECT_GT(io.offset, 50ull << 20);  // in more than 30 s
    own += io.size;
  }
  EXPECT_EQ(own, 49ull << 20);
  EXPECT_EQ(bytes, 99ull << 20);
  // Nothing is planned before it is gone.
  EXPECT_TRUE(Plan().empty());
  for (const ppc_io& io : all) EXPECT_TRUE(Dropped(io, io.size));
  EXPECT_EQ(leftovers_->stats().dropped, bytes);
  uint64_t planned = 0;
  for (const ppc_io& io : Plan()) {
    EXPECT_EQ(io.xpu, 0);
    planned += io.size;
  }
  EXPECT_EQ(planned, bytes);
}

TEST_F(LeftoversTest, ThatOnlyOnce) {
  Build(100);
  Answer(Plan());
  Read(20);
  for (int i = 0; i < 10; i++) {
    for (const ppc_io& io : Evict()) Dropped(io, io.size);
    Answer(Plan());  // the kernel put it where it was
  }
  EXPECT_EQ(leftovers_->stats().dropped, 99ull << 20);
}

TEST_F(LeftoversTest, NothingBeforeAnybodyHasRead) {
  Build(100);
  Answer(Plan());
  EXPECT_TRUE(Evict().empty());
  Read(10);  // too little to know a rate
  EXPECT_TRUE(EvictMuch().empty());
  EXPECT_EQ(g_kernel.looks, 0u);
  Read(20);
  EXPECT_FALSE(EvictMuch().empty());
}

TEST_F(LeftoversTest, NothingWhileThereIsSomethingToLoad) {
  Build(100);
  Read(20);
  Answer(Plan(64 << 20));
  EXPECT_FALSE(planner_->finished());
  EXPECT_TRUE(EvictMuch().empty());
  EXPECT_EQ(g_kernel.looks, 0u);
}

TEST_F(LeftoversTest, WhatStays) {
  const std::pair<const char*, void (*)()> kCases[] = {
      {"mapped", [] { g_kernel.mapped = 4096; }},
      {"half right", [] { g_kernel.elsewhere = 512 << 10; }},
      {"unknown", [] { g_kernel.error = -ESTALE; }},
  };
  for (const auto& [what, set] : kCases) {
    g_kernel = Kernel();
    set();
    Build(100);
    Answer(Plan());
    Read(20);
    EXPECT_TRUE(EvictMuch().empty()) << what;
    EXPECT_GT(g_kernel.looks, 0u) << what;
  }
  g_kernel = Kernel();
  Build(100);
  Answer(Plan());
  Read(20);
  EXPECT_TRUE(EvictMuch(/*held=*/true).empty());
  EXPECT_EQ(leftovers_->stats().found, 0u);
}

TEST_F(LeftoversTest, FewAtATime) {
  Build(1000);
  Answer(Plan());
  Read(20);
  uint64_t bytes = 0;
  uint64_t most = 0;
  for (int i = 0; i < 100; i++) {
    const uint64_t before = g_kernel.looks;
    for (const ppc_io& io : Evict()) bytes += io.size;
    most = std::max(most, g_kernel.looks - before);
  }
  EXPECT_EQ(bytes, 256ull << 20);
  EXPECT_LE(most, 64u);
}

TEST_F(LeftoversTest, WhatCouldNotBeDroppedIsStillThere) {
  Build(100);
  Answer(Plan());
  Read(20);
  const std::vector<ppc_io> some = EvictMuch();
  ASSERT_GE(some.size(), 2u);
  EXPECT_TRUE(Dropped(some[0], 0));
  // The rest is never reported.
  leftovers_->Expire(now_ns_ + 30'000'000'000);
  EXPECT_TRUE(Plan().empty());
  EXPECT_EQ(leftovers_->stats().dropped, 0u);
  // Too late: it is ours all the same, and changes nothing.
  EXPECT_TRUE(Dropped(some[1], some[1].size));
  EXPECT_EQ(leftovers_->stats().dropped, 0u);
  ppc_io other = {};
  other.cookie = 5;
  EXPECT_FALSE(Dropped(other, 0));
}

}  // namespace
}  // namespace ppc::maio
