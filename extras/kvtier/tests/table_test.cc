// SPDX-License-Identifier: Apache-2.0
// The table of objects, the ledger, the pace and the keeper of kvtier.
#include <gtest/gtest.h>

#include "extras/kvtier/config.h"
#include "extras/kvtier/keeper.h"
#include "extras/kvtier/ledger.h"
#include "extras/kvtier/object_table.h"
#include "extras/kvtier/walk.h"
#include "tests/unit/has.h"

namespace ppc::kvtier {
namespace {

constexpr uint64_t kBlock = 1 << 20;

Object* AddObject(ObjectTable* table, uint64_t file) {
  Object displaced;
  return table->Add(KeyOf(file, 0), &displaced);
}

TEST(KvTierKey, HoldsFileAndBlock) {
  const Key key = KeyOf((uint64_t{1} << 40) - 1, (1 << 24) - 1);
  EXPECT_EQ(FileOf(key), (uint64_t{1} << 40) - 1);
  EXPECT_EQ(BlockOf(key), (1u << 24) - 1);
  EXPECT_EQ(KeyOf(uint64_t{1} << 40, 0), 0u);
  EXPECT_EQ(KeyOf(1, 1 << 24), 0u);
}

TEST(KvTierObject, ItsExtentGrowsBothWays) {
  Object object;
  object.Extend(8, 4);
  object.Extend(4, 1);
  object.Extend(6, 2);
  EXPECT_EQ(object.first_page, 4);
  EXPECT_EQ(object.pages, 8);
}

TEST(KvTierTable, AMillionObjectsFitIntoTheDefault) {
  ObjectTable table(Config{}.table);
  for (uint64_t file = 1; file <= 1'000'000; file++) ASSERT_NE(AddObject(&table, file), nullptr);
  EXPECT_LE(table.bytes(), 24u << 20);
  uint64_t found = 0;
  for (uint64_t file = 1; file <= 1'000'000; file++) found += table.Find(KeyOf(file, 0)) != nullptr;
  EXPECT_EQ(found, table.size());
  EXPECT_EQ(found + table.displaced(), 1'000'000u);
  EXPECT_GE(found, 999'000u);
}

TEST(KvTierTable, NeverGrowsBeyondItsBytesAndKeepsWhatIsSureAndHot) {
  ObjectTable table(64 << 10);
  for (uint64_t file = 1; file <= 500; file++) {
    Object* const object = AddObject(&table, file);
    object->heat = 8;
    object->confidence = 2;
  }
  for (uint64_t file = 1000; file < 101'000; file++) ASSERT_NE(AddObject(&table, file), nullptr);
  EXPECT_LE(table.bytes(), 64u << 10);
  uint64_t kept = 0;
  for (uint64_t file = 1; file <= 500; file++) kept += table.Find(KeyOf(file, 0)) != nullptr;
  EXPECT_EQ(kept, 500u);
}

TEST(KvTierTable, WhatHadToGoIsTold) {
  ObjectTable table(1);  // one set
  for (uint64_t file = 1; file <= 8; file++) AddObject(&table, file)->heat = file == 3 ? 0 : 1;
  Object displaced;
  ASSERT_NE(table.Add(KeyOf(9, 0), &displaced), nullptr);
  EXPECT_EQ(displaced.key, KeyOf(3, 0));
  EXPECT_EQ(table.size(), 8u);
}

TEST(KvTierTable, AGuessThatIsWaitedForStays) {
  ObjectTable table(1);
  for (uint64_t file = 1; file <= 8; file++) AddObject(&table, file)->walk = 1;
  EXPECT_EQ(AddObject(&table, 9), nullptr);
  EXPECT_NE(AddObject(&table, 8), nullptr);
}

TEST(KvTierTable, WhatFollowsIsLearntAtOnceAndReplacedSlowly) {
  ObjectTable table(1);
  Object* const object = AddObject(&table, 1);
  table.Follow(object, 22);
  EXPECT_EQ(object->next, 22u);
  EXPECT_EQ(object->confidence, 1);
  table.Follow(object, 22);
  table.Follow(object, 33);  // one exception changes nothing
  EXPECT_EQ(object->next, 22u);
  EXPECT_EQ(object->confidence, 2);
  table.Fail(object, 33);
  EXPECT_EQ(object->next, 22u);
  table.Fail(object, 33);
  EXPECT_EQ(object->next, 33u);
  EXPECT_EQ(object->confidence, 0);  // to be seen again
  table.Follow(object, 33);
  EXPECT_EQ(object->confidence, 1);
}

TEST(KvTierLedger, WhatIsWrongStaysASmallShare) {
  Ledger ledger;
  ledger.Read(400 << 20);
  uint64_t wrong = 0;
  for (uint64_t may = ledger.AheadOf(0); may > 0 && wrong < kBlock * 400; may = ledger.AheadOf(0)) {
    ledger.Wrong(64 << 10);
    wrong += 64 << 10;
  }
  EXPECT_LE(wrong, (400u << 20) / 20);
  EXPECT_GE(wrong, 1u << 20);
  // A walk that has been right for long may continue all the same.
  EXPECT_EQ(ledger.AheadOf(Ledger::kRunPerGuess * kBlock), kBlock);
  ledger.Refund(wrong);
  EXPECT_GT(ledger.AheadOf(0), 0u);
}

TEST(KvTierLedger, FirstGuessesStopWhereTheyAreWrong) {
  Ledger ledger;
  ledger.Read(400 << 20);
  for (int i = 0; i < 10; i++) ledger.First(false);
  EXPECT_EQ(ledger.AheadOf(0), 0u);
  EXPECT_GT(ledger.AheadOf(1), 0u);
  for (int i = 0; i < 3; i++) ledger.First(true);
  EXPECT_GT(ledger.AheadOf(0), 0u);
}

TEST(KvTierPace, AheadByLoadTimeOverStepTime) {
  Pace pace;
  EXPECT_EQ(pace.Needed(), 64u) << "nothing is known of the device";
  pace.Loaded(20'000'000);
  for (uint64_t i = 1; i <= 1000; i++) pace.Arrive(i * 1'000'000, false, true);
  EXPECT_EQ(pace.step_ns(), 1'000'000u);
  EXPECT_EQ(pace.Needed(), 42u);
}

TEST(KvTierPace, TheDisksTimeIsNotTheReaders) {
  Pace pace;
  pace.Arrive(1'000'000'000, true, false);
  pace.Arrive(1'100'000'000, true, false);  // includes the wait
  EXPECT_EQ(pace.step_ns(), 100'000'000u);
  pace.Arrive(1'200'000'000, false, true);
  pace.Arrive(1'202'000'000, false, true);  // without
  EXPECT_EQ(pace.step_ns(), 2'000'000u);
}

TEST(KvTierPace, LateObjectsWidenIt) {
  Pace pace;
  pace.Loaded(1'000'000);
  uint64_t now = 1'000'000;
  for (int i = 0; i < 100; i++) pace.Arrive(now += 1'000'000, false, true);
  const uint64_t calm = pace.Needed();
  for (int i = 0; i < 100; i++) pace.Arrive(now += 1'000'000, true, true);
  EXPECT_GE(pace.Needed(), 4 * calm);
  for (int i = 0; i < 100'000; i++) pace.Arrive(now += 1'000'000, false, true);
  EXPECT_EQ(pace.Needed(), calm);
}

// The pace after a reader took three layers of fifty objects, each layer at once, and computed
// between them.
Pace AfterLayers(uint64_t* now) {
  Pace pace;
  pace.Loaded(3'000'000);
  for (int layer = 0; layer < 3; layer++) {
    *now += 25'000'000;
    for (int i = 0; i < 50; i++) pace.Arrive(*now += 100'000, false, true);
  }
  return pace;
}

// A layer's objects at once, then its computing: the next layer must be loaded by then.
TEST(KvTierPace, WhatIsReadAtOnceIsNeededAtOnce) {
  uint64_t now = 1'000'000;
  const Pace pace = AfterLayers(&now);
  EXPECT_GE(pace.Needed(), 49u);
  EXPECT_LE(pace.Needed(), 100u);
}

// The next reader inherits the pace, but not how often this one waited.
TEST(KvTierPace, TheNextReaderBeginsWithWhatThisOneNeeded) {
  uint64_t now = 1'000'000;
  Pace pace = AfterLayers(&now);
  const uint64_t calm = pace.Needed();
  EXPECT_EQ(pace.OfNext().Needed(), calm);
  for (int i = 0; i < 200; i++) pace.Arrive(now += 100'000, true, true);
  EXPECT_GT(pace.Needed(), 2 * calm);
  EXPECT_LT(pace.OfNext().Needed(), 2 * calm);
}

// A chain read for the first time, from memory: the time of loads is unknown.
TEST(KvTierPace, WithoutLoadsThereAreNoBursts) {
  Pace pace;
  uint64_t now = 1'000'000;
  for (int i = 0; i < 500; i++) pace.Arrive(now += 100'000, false, false);
  pace.Loaded(3'000'000);
  const uint64_t needed = pace.Needed();
  pace.Arrive(now += 25'000'000, false, false);
  EXPECT_LE(pace.Needed(), needed);
}

class KvTierKeeperTest : public ::testing::Test {
 protected:
  Object* Came(uint64_t file, int times) {
    Object* const object = AddObject(&table_, file);
    object->Extend(0, 16);
    for (int i = 0; i < times; i++) keeper_.Came(object, /*wanted=*/true);
    return object;
  }
  bool IsDropped(uint64_t file) {
    return std::any_of(list_.ios().begin(), list_.ios().end(),
                       [file](const ppc_io& io) { return io.file == file; });
  }
  ObjectTable table_{1 << 20};
  Keeper keeper_{&table_, kBlock};
  ppc::IoList list_;
};

TEST_F(KvTierKeeperTest, TheColdestGoNotTheOldest) {
  for (uint64_t file = 1; file <= 50; file++) Came(file, 6);     // old and hot
  for (uint64_t file = 101; file <= 150; file++) Came(file, 1);  // new, read once
  EXPECT_EQ(keeper_.kept_bytes(), 100u * 16 * kPage);
  keeper_.Drop(50 * 16 * kPage, &list_);
  EXPECT_EQ(list_.size(), 50u);
  for (uint64_t file = 101; file <= 150; file++) EXPECT_TRUE(IsDropped(file)) << file;
  EXPECT_EQ(keeper_.kept_bytes(), 50u * 16 * kPage);
  EXPECT_EQ(list_.ios()[0].size, kBlock);
}

TEST_F(KvTierKeeperTest, WhatWasHotOnceCoolsDown) {
  Came(1, 10);
  for (uint64_t file = 1000; file < 1020; file++) {
    Came(file, 2);
    keeper_.Drop(16 * kPage, &list_);
  }
  EXPECT_TRUE(IsDropped(1));
}

TEST_F(KvTierKeeperTest, WhatIsAboutToBeReadStaysAndWrongGuessesGoFirst) {
  Came(1, 1)->walk = 3;
  Came(2, 9)->Set(Object::kGuessed | Object::kWrong);
  Came(3, 1);
  keeper_.Drop(16 * kPage, &list_);
  ASSERT_EQ(list_.size(), 1u);
  EXPECT_TRUE(IsDropped(2));
  keeper_.Drop(~0ull >> 1, &list_);
  EXPECT_FALSE(IsDropped(1));
  EXPECT_TRUE(IsDropped(3));
}

TEST_F(KvTierKeeperTest, WhatStayedIsCountedAgain) {
  Object* const object = Came(1, 1);
  keeper_.Drop(16 * kPage, &list_);
  EXPECT_EQ(keeper_.kept_bytes(), 0u);
  keeper_.Stayed(object);
  EXPECT_EQ(keeper_.kept_bytes(), 16u * kPage);
}

TEST_F(KvTierKeeperTest, AnEntryThatHadToGoTakesItsPagesAlong) {
  keeper_.Displaced(*Came(1, 3));
  keeper_.Drop(0, &list_);
  ASSERT_EQ(list_.size(), 1u);
  EXPECT_EQ(keeper_.kept_bytes(), 0u);
}

// While memory is not short, no drops are requested.
TEST_F(KvTierKeeperTest, EntriesThatHadToGoAreBounded) {
  constexpr uint64_t kObjects = 100'000;
  for (uint64_t file = 1; file <= kObjects; file++) {
    Object object{.key = KeyOf(file, 0), .pages = 16, .heat = 1};
    keeper_.Came(&object, /*wanted=*/true);
    keeper_.Displaced(object);
  }
  EXPECT_LE(keeper_.kept_bytes(), Keeper::kMostDisplaced * 16 * kPage);
  uint64_t dropped = 0;
  for (uint64_t before = 1; dropped != before; list_.Clear()) {
    before = dropped;
    keeper_.Drop(0, &list_);
    dropped += list_.size();
  }
  EXPECT_LE(dropped, Keeper::kMostDisplaced);
  EXPECT_GE(dropped, Keeper::kMostDisplaced / 2);
  EXPECT_EQ(keeper_.kept_bytes(), 0u);
}

TEST_F(KvTierKeeperTest, ADisplacedObjectThatIsReadAgainStays) {
  Object* const object = Came(1, 3);
  keeper_.Displaced(*object);
  table_.Remove(object);
  Came(1, 1);
  EXPECT_EQ(keeper_.kept_bytes(), 16u * kPage) << "counted once";
  keeper_.Drop(0, &list_);
  EXPECT_FALSE(IsDropped(1));
  EXPECT_EQ(keeper_.kept_bytes(), 16u * kPage);
}

TEST(KvTierConfig, MistakesAreNamed) {
  EXPECT_TRUE(ParseConfig("{}"));
  EXPECT_TRUE(ParseConfig(R"({"block": "64K", "ahead": "1M", "reader": "thread", "runtime": {}})"));
  const auto refuses = [](const char* text, const char* part) {
    const Result<Config> config = ParseConfig(text);
    ASSERT_FALSE(config) << text;
    EXPECT_TRUE(Has(config.error().message, part));
  };
  refuses(R"({"block": "100K"})", "kvtier: option \"block\" must be a power of two");
  refuses(R"({"block": "128M"})", "power of two");
  refuses(R"({"table": 1})", "\"table\" must be from");
  refuses(R"({"reader": "file"})", "process, thread");
  refuses(R"({"blocks": 1})", "blocks");
  refuses("[]", "kvtier");
}

}  // namespace
}  // namespace ppc::kvtier
