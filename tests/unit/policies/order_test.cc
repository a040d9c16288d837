// SPDX-License-Identifier: Apache-2.0
// Orders of reading: within a list, and whole passes.
#include <gtest/gtest.h>

#include <optional>
#include <vector>

#include "policies/maio/follow/next_use_order.h"
#include "policies/maio/passes/passes.h"
#include "policies/maio/passes/reader.h"
#include "policies/maio/record/reorder_buffer.h"
#include "tests/unit/policies/template_samples.h"
#include "tests/unit/units.h"

namespace ppc::maio {
namespace {

constexpr uint64_t kNear = 4 * kMiB;

// Two workers of one file of 100 MiB: the first reads it twice, the second its last half.
class MaioOrderTest : public ::testing::Test {
 protected:
  static Template TwoReaders() {
    return OneFile(100 << 20, {{{0, 0, 100 * kMiBPages}, {0, 0, 100 * kMiBPages}},
                               {{0, 50 * kMiBPages, 50 * kMiBPages}}});
  }
  void Read(uint32_t group, uint64_t mib) {
    Observation o;
    o.group = group;
    o.first_page = mib * kMiBPages;
    o.end_page = o.first_page + kMiBPages;
    matcher_.Observe(o);
  }
  std::vector<uint32_t> Furthest(uint64_t bytes, uint64_t nearest, uint64_t now_ns) {
    std::vector<uint32_t> pieces;
    (void)order_.Furthest(bytes, nearest, kNear, now_ns, &pieces);
    return pieces;
  }

  Layout layout_{TwoReaders(), std::vector<uint64_t>{1}};
  PieceTable table_{&layout_};
  Matcher matcher_{&table_, kMiB, kMiB};
  NextUseOrder order_{&layout_, &matcher_};
};

TEST_F(MaioOrderTest, TheNearestReaderCounts) {
  EXPECT_EQ(order_.NextUse(60, kNear), 10 * kMiB);  // of the second reader's sequence
  EXPECT_EQ(order_.NextUse(40, kNear), 40 * kMiB);
  for (uint64_t mib = 0; mib < 20; mib++) Read(0, mib);
  EXPECT_EQ(order_.NextUse(40, kNear), 20 * kMiB);
  EXPECT_EQ(order_.NextUse(19, kNear), 0u);  // its reader is in it
}

TEST_F(MaioOrderTest, WhatHasBeenReadIsUsedInTheNextPassOrNever) {
  for (uint64_t mib = 0; mib < 20; mib++) Read(0, mib);
  table_.Burn(0, 0, 3);
  EXPECT_EQ(order_.NextUse(3, kNear), (103 - 20) * kMiB);
  table_.Burn(0, 0, 103);
  EXPECT_EQ(order_.NextUse(3, kNear), NextUseOrder::kNever);
}

TEST_F(MaioOrderTest, WhatAReaderHasGonePastIsLeftOut) {
  for (uint64_t mib = 50; mib < 53; mib++) Read(1, mib);
  for (uint64_t mib = 80; mib < 90; mib++) Read(1, mib);
  table_.Burn(0, 0, 60);
  table_.Burn(0, 0, 160);
  EXPECT_EQ(order_.NextUse(60, kNear), NextUseOrder::kLeftOut);
  table_.Burn(0, 0, 88);
  table_.Burn(0, 0, 188);
  EXPECT_EQ(order_.NextUse(88, kNear), 0u);  // so close behind it may still come
}

// After a crash of the runner its reader may be in it, and nothing has told so.
TEST_F(MaioOrderTest, WhatAnotherHasReadIsNotLeftOut) {
  for (uint64_t mib = 0; mib < 62; mib++) Read(0, mib);
  for (uint64_t mib = 50; mib < 53; mib++) Read(1, mib);
  for (uint64_t mib = 80; mib < 90; mib++) Read(1, mib);
  table_.Burn(0, 0, 60);
  table_.Burn(0, 0, 160);
  EXPECT_EQ(order_.NextUse(60, kNear), 0u);
}

TEST_F(MaioOrderTest, TheFurthestGoFirstAndTheNearStay) {
  for (uint32_t p = 0; p < 100; p++) table_.Find(p);
  EXPECT_EQ(Furthest(2 * kMiB, 0, 1), (std::vector<uint32_t>{99, 49}));
  EXPECT_EQ(Furthest(100 * kMiB, 48 * kMiB, 1), (std::vector<uint32_t>{98, 48}));
}

// The piece was far ahead of its reader when all pieces were sorted.
TEST_F(MaioOrderTest, APieceThatItsReaderReachedSinceTheSortStays) {
  for (uint32_t p = 0; p < 100; p++) table_.Find(p);
  EXPECT_EQ(Furthest(2 * kMiB, 0, 1), (std::vector<uint32_t>{99, 49}));
  for (uint64_t mib = 0; mib < 49; mib++) Read(0, mib);
  EXPECT_EQ(Furthest(100 * kMiB, 48 * kMiB, 2), (std::vector<uint32_t>{98}));
}

// The drop may have left the piece mapped, and its reader is in what it has missed since.
TEST_F(MaioOrderTest, ADroppedPieceStaysForASecondAndAMissedOneForARest) {
  constexpr uint64_t kBackNs = kMs;
  for (const uint32_t p : {10u, 20u}) {
    table_.Find(p);
    table_.Return(p, kBackNs);
  }
  table_.LeaveMapped(20);
  EXPECT_TRUE(Furthest(2 * kMiB, kMiB, kBackNs + kReleasedNs - kMs).empty());
  EXPECT_EQ(Furthest(2 * kMiB, kMiB, kBackNs + kRestNs / 2), (std::vector<uint32_t>{10}));
  EXPECT_EQ(Furthest(2 * kMiB, kMiB, kBackNs + kRestNs), (std::vector<uint32_t>{20, 10}));
}

// All pieces are looked at: as seldom as their number asks for.
TEST_F(MaioOrderTest, WhatWasLoadedSinceIsFoundAtTheNextSort) {
  table_.Find(10);
  EXPECT_EQ(Furthest(2 * kMiB, kMiB, 1), (std::vector<uint32_t>{10}));
  table_.Find(99);
  EXPECT_TRUE(Furthest(kMiB, kMiB, 2).empty());
  EXPECT_EQ(Furthest(kMiB, kMiB, 1 + kSortNs), (std::vector<uint32_t>{99}));
}

constexpr uint64_t kMs = 1'000'000;

std::vector<uint64_t> Taken(ReorderBuffer* buffer, bool all = false) {
  std::vector<uint64_t> pages;
  while (const auto touched = all ? buffer->Oldest() : buffer->Next())
    pages.push_back(touched->first_page);
  return pages;
}

TEST(InOrderTest, TheEndOfAFileThatIsToldLateComesBeforeTheNextFile) {
  ReorderBuffer buffer;
  buffer.Put({1000 * kMs, 1, 0, 10, 11});
  buffer.Put({1020 * kMs, 1, 1, 30, 31});
  buffer.Put({1200 * kMs, 1, 1, 40, 41});
  buffer.Put({1010 * kMs, 1, 0, 20, 21});  // gathered
  EXPECT_TRUE(Taken(&buffer).empty());
  buffer.Put({1520 * kMs, 1, 1, 50, 51});
  EXPECT_EQ(Taken(&buffer), (std::vector<uint64_t>{10, 20, 30}));
  EXPECT_EQ(Taken(&buffer, true), (std::vector<uint64_t>{40, 50}));
}

TEST(InOrderTest, OfOneMomentTheFirstThatWasToldIsFirst) {
  ReorderBuffer buffer;
  for (uint64_t page = 0; page < 4; page++) buffer.Put({7 * kMs, 1, 0, page, page + 1});
  EXPECT_EQ(Taken(&buffer, true), (std::vector<uint64_t>{0, 1, 2, 3}));
}

TEST(InOrderTest, HoldsABoundedNumber) {
  ReorderBuffer buffer;
  size_t taken = 0;
  for (uint64_t page = 0; page < 3 * kMostLate; page++) {
    buffer.Put({page, 1, 0, page, page + 1});
    taken += Taken(&buffer).size();
  }
  EXPECT_EQ(taken, 2 * kMostLate);
}

constexpr uint64_t kMillisecond = 1'000'000;

// Two files of 320 MiB, and a small one that is no part of a pass.
class PassReaderTest : public ::testing::Test {
 protected:
  static Template TwoFiles() {
    Template t;
    t.service_id = "abcd";
    t.files.push_back({"a", 320 << 20, 0, FileKind::kSafetensors, {}});
    t.files.push_back({"b", 320 << 20, 0, FileKind::kSafetensors, {}});
    t.files.push_back({"c.json", 1 << 20, 0, FileKind::kSmall, {}});
    t.groups.resize(1);
    t.groups[0].extents = {{0, 0, 320 * kMiBPages}, {1, 0, 320 * kMiBPages}, {2, 0, kMiBPages}};
    return t;
  }
  std::optional<Pass> At(uint64_t mib, uint64_t ms, bool is_miss = true,
                         PassReader* reader = nullptr, int32_t pid = 10) {
    return (reader == nullptr ? &reader_ : reader)
        ->Observe({.file = mib < 320 ? 1u : 2u,
                   .offset = mib % 320 * kMiB,
                   .bytes = kMiB,
                   .is_miss = is_miss,
                   .now_ns = ms * kMillisecond,
                   .process = {pid, 1}});
  }
  // [from, to) MiB, a millisecond each; what it ended.
  std::optional<Pass> Read(uint64_t from, uint64_t to) {
    std::optional<Pass> ended;
    for (uint64_t mib = from; mib < to; mib++) {
      if (const auto pass = At(mib, ++ms_)) ended = pass;
    }
    return ended;
  }

  Layout layout_{TwoFiles(), std::vector<uint64_t>{1, 2, 3}};
  PassReader reader_{layout_};
  uint64_t ms_ = 1000;
};

TEST_F(PassReaderTest, CutsTheModelInStripes) {
  EXPECT_EQ(reader_.bytes(), 640 * kMiB);
  EXPECT_EQ(reader_.stripe_bytes(), 10 * kMiB);
  EXPECT_EQ(reader_.count(), 64u);
}

TEST_F(PassReaderTest, APassIsWholeOnceItsBeginWasSeen) {
  EXPECT_FALSE(Read(100, 640));
  const Pass first = Read(0, 640).value();
  EXPECT_FALSE(first.is_whole);
  const Pass second = Read(0, 1).value();
  EXPECT_TRUE(second.is_whole);
  EXPECT_EQ(second.ns, 640 * kMillisecond);
  EXPECT_EQ(second.missed, 640 * kMiB);
  EXPECT_EQ(reader_.turn(), 2 * reader_.count());
}

TEST_F(PassReaderTest, ThreadsMayBeAStripeOrTwoApart) {
  Read(0, 640);
  Read(0, 1);
  for (uint64_t mib = 20; mib < 640; mib += 10) {
    At(mib, ++ms_);
    At(mib - 20, ++ms_);
  }
  const Pass pass = Read(0, 1).value();
  EXPECT_TRUE(pass.is_whole);
}

// What the memory holds is read without a word.
TEST_F(PassReaderTest, SilentPartsBelongToAPass) {
  Read(0, 640);
  Read(0, 100);
  EXPECT_FALSE(Read(350, 640));
  const Pass ended = Read(0, 1).value();
  EXPECT_TRUE(ended.is_whole);
  EXPECT_EQ(ended.missed, 390 * kMiB);
}

TEST_F(PassReaderTest, GoingBackIsNoPass) {
  Read(0, 640);
  Read(0, 400);
  const auto back = At(100, ++ms_);  // forward, that would be over the end
  EXPECT_TRUE(!back || !back->is_whole);
  Read(101, 640);
  const Pass pass = Read(0, 1).value();
  EXPECT_FALSE(pass.is_whole);
}

TEST_F(PassReaderTest, WhatIsReadHereAndThereIsNoPass) {
  uint64_t at = 7, whole = 0;
  for (int i = 0; i < 20000; i++) {
    at = (at * 69069 + 12345) % 640;
    const auto pass = At(at, ++ms_);
    whole += pass && pass->is_whole ? 1 : 0;
  }
  EXPECT_EQ(whole, 0u);
}

TEST_F(PassReaderTest, ARestSaysNothingOfThePassesTime) {
  Read(0, 640);
  Read(0, 300);
  ms_ += 5000;
  Read(300, 640);
  const Pass pass = Read(0, 1).value();
  EXPECT_FALSE(pass.is_whole);
}

// A request that needs one pass, and then no other for a while.
TEST_F(PassReaderTest, ARestBeforeTheNextPassIsNotOfThisOne) {
  Read(0, 640);
  Read(0, 640);
  ms_ += 5000;
  const Pass pass = Read(0, 1).value();
  EXPECT_TRUE(pass.is_whole);
  EXPECT_EQ(pass.ns + pass.rest_ns, 5640 * kMillisecond);
  EXPECT_EQ(pass.rest_ns, 5001 * kMillisecond);
}

TEST_F(PassReaderTest, OfSeveralProcessesNoPassIsWhole) {
  for (const uint64_t share : {20, 2}) {
    PassReader reader(layout_);
    std::optional<Pass> pass;
    for (uint64_t mib = 0; mib < 3 * 640; mib++) {
      const int32_t pid = mib % share == 0 ? 11 : 10;
      if (const auto ended = At(mib % 640, ++ms_, true, &reader, pid)) pass = ended;
    }
    EXPECT_EQ(pass.value().is_shared, share == 2) << "a look is a look";
    EXPECT_EQ(pass.value().is_whole, share != 2);
  }
}

TEST_F(PassReaderTest, MissesOfWhatIsKeptAreCounted) {
  for (Stripe& stripe : reader_.stripes()) stripe.kept = 4 * kMiB;
  Read(0, 640);
  const Pass pass = Read(0, 1).value();
  EXPECT_EQ(pass.kept_missed, 640 * kMiB / 10 * 4);
}

// Results may come late, of a service that had this place before too.
TEST_F(PassReaderTest, SmallFilesResultsAreNoneOfThePasses) {
  ppc_context context = {};
  context.now_ns = [](const ppc_context*) { return uint64_t{0}; };
  const maio::ServiceRun run(&context, Config(), ServiceSpec(), 3);
  const Passes passes(&run, layout_);
  EXPECT_TRUE(passes.Owns(run.cookie() | kPassesTag | 2));
  EXPECT_FALSE(passes.Owns(run.cookie() | kSmallFilesTag | 2));
}

TEST_F(PassReaderTest, OtherFilesAreNoneOfIt) {
  EXPECT_FALSE(
      reader_.Observe({.file = 3, .offset = 0, .bytes = 4096, .is_miss = true, .now_ns = 1}));
  EXPECT_FALSE(
      reader_.Observe({.file = 9, .offset = 0, .bytes = 4096, .is_miss = true, .now_ns = 1}));
  EXPECT_EQ(reader_.Ahead(3, 0), reader_.count());
}

TEST_F(PassReaderTest, APlaceLiesAheadRoundTheEnd) {
  Read(0, 400);
  EXPECT_EQ(reader_.Ahead(2, 80 * kMiB), 1u);
  EXPECT_EQ(reader_.Ahead(1, 0), 64u - 39);
}

}  // namespace
}  // namespace ppc::maio
