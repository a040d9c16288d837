// SPDX-License-Identifier: Apache-2.0
// Objects, the prefetch budget, the prefetch distance and the clock cache of kvtier.
#include <gtest/gtest.h>

#include "extras/kvtier/clock_cache.h"
#include "extras/kvtier/config.h"
#include "extras/kvtier/object_table.h"
#include "extras/kvtier/prefetch_budget.h"
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

TEST(KvTierPrefetchBudget, WhatIsWrongStaysASmallShare) {
  PrefetchBudget budget;
  budget.NoteRead(400 << 20);
  uint64_t wrong = 0;
  for (uint64_t may = budget.BytesAhead(0); may > 0 && wrong < kBlock * 400;
       may = budget.BytesAhead(0)) {
    budget.NoteWrong(64 << 10);
    wrong += 64 << 10;
  }
  EXPECT_LE(wrong, (400u << 20) / 20);
  EXPECT_GE(wrong, 1u << 20);
  // A walk that has been right for long may continue all the same.
  EXPECT_EQ(budget.BytesAhead(PrefetchBudget::kRunPerGuess * kBlock), kBlock);
  budget.Refund(wrong);
  EXPECT_GT(budget.BytesAhead(0), 0u);
}

TEST(KvTierPrefetchBudget, FirstGuessesStopWhereTheyAreWrong) {
  PrefetchBudget budget;
  budget.NoteRead(400 << 20);
  for (int i = 0; i < 10; i++) budget.NoteFirstGuess(false);
  EXPECT_EQ(budget.BytesAhead(0), 0u);
  EXPECT_GT(budget.BytesAhead(1), 0u);
  for (int i = 0; i < 3; i++) budget.NoteFirstGuess(true);
  EXPECT_GT(budget.BytesAhead(0), 0u);
}

TEST(KvTierPrefetchDistance, AheadByLoadTimeOverStepTime) {
  PrefetchDistance distance;
  EXPECT_EQ(distance.Needed(), 64u) << "nothing is known of the device";
  distance.NoteLoad(20'000'000);
  for (uint64_t i = 1; i <= 1000; i++) distance.NoteArrival(i * 1'000'000, false, true);
  EXPECT_EQ(distance.step_ns(), 1'000'000u);
  EXPECT_EQ(distance.Needed(), 42u);
}

TEST(KvTierPrefetchDistance, TheDisksTimeIsNotTheReaders) {
  PrefetchDistance distance;
  distance.NoteArrival(1'000'000'000, true, false);
  distance.NoteArrival(1'100'000'000, true, false);  // includes the wait
  EXPECT_EQ(distance.step_ns(), 100'000'000u);
  distance.NoteArrival(1'200'000'000, false, true);
  distance.NoteArrival(1'202'000'000, false, true);  // without
  EXPECT_EQ(distance.step_ns(), 2'000'000u);
}

TEST(KvTierPrefetchDistance, LateObjectsWidenIt) {
  PrefetchDistance distance;
  distance.NoteLoad(1'000'000);
  uint64_t now = 1'000'000;
  for (int i = 0; i < 100; i++) distance.NoteArrival(now += 1'000'000, false, true);
  const uint64_t calm = distance.Needed();
  for (int i = 0; i < 100; i++) distance.NoteArrival(now += 1'000'000, true, true);
  EXPECT_GE(distance.Needed(), 4 * calm);
  for (int i = 0; i < 100'000; i++) distance.NoteArrival(now += 1'000'000, false, true);
  EXPECT_EQ(distance.Needed(), calm);
}

// The distance after a reader took three layers of fifty objects, each layer at once, and computed
// between them.
PrefetchDistance AfterLayers(uint64_t* now) {
  PrefetchDistance distance;
  distance.NoteLoad(3'000'000);
  for (int layer = 0; layer < 3; layer++) {
    *now += 25'000'000;
    for (int i = 0; i < 50; i++) distance.NoteArrival(*now += 100'000, false, true);
  }
  return distance;
}

// A layer's objects at once, then its computing: the next layer must be loaded by then.
TEST(KvTierPrefetchDistance, WhatIsReadAtOnceIsNeededAtOnce) {
  uint64_t now = 1'000'000;
  const PrefetchDistance distance = AfterLayers(&now);
  EXPECT_GE(distance.Needed(), 49u);
  EXPECT_LE(distance.Needed(), 100u);
}

// The next reader inherits the distance, but not how often this one waited.
TEST(KvTierPrefetchDistance, TheNextReaderBeginsWithWhatThisOneNeeded) {
  uint64_t now = 1'000'000;
  PrefetchDistance distance = AfterLayers(&now);
  const uint64_t calm = distance.Needed();
  EXPECT_EQ(distance.ForNext().Needed(), calm);
  for (int i = 0; i < 200; i++) distance.NoteArrival(now += 100'000, true, true);
  EXPECT_GT(distance.Needed(), 2 * calm);
  EXPECT_LT(distance.ForNext().Needed(), 2 * calm);
}

// A chain read for the first time, from memory: the time of loads is unknown.
TEST(KvTierPrefetchDistance, WithoutLoadsThereAreNoBursts) {
  PrefetchDistance distance;
  uint64_t now = 1'000'000;
  for (int i = 0; i < 500; i++) distance.NoteArrival(now += 100'000, false, false);
  distance.NoteLoad(3'000'000);
  const uint64_t needed = distance.Needed();
  distance.NoteArrival(now += 25'000'000, false, false);
  EXPECT_LE(distance.Needed(), needed);
}

class KvTierClockCacheTest : public ::testing::Test {
 protected:
  Object* Cached(uint64_t file, int times) {
    Object* const object = AddObject(&table_, file);
    object->Extend(0, 16);
    for (int i = 0; i < times; i++) cache_.NoteCached(object, /*wanted=*/true);
    return object;
  }
  bool IsDropped(uint64_t file) {
    return std::any_of(list_.ios().begin(), list_.ios().end(),
                       [file](const ppc_io& io) { return io.file == file; });
  }
  ObjectTable table_{1 << 20};
  ClockCache cache_{&table_, kBlock};
  ppc::IoList list_;
};

TEST_F(KvTierClockCacheTest, TheColdestGoNotTheOldest) {
  for (uint64_t file = 1; file <= 50; file++) Cached(file, 6);     // old and hot
  for (uint64_t file = 101; file <= 150; file++) Cached(file, 1);  // new, read once
  EXPECT_EQ(cache_.kept_bytes(), 100u * 16 * kPage);
  cache_.Drop(50 * 16 * kPage, &list_);
  EXPECT_EQ(list_.size(), 50u);
  for (uint64_t file = 101; file <= 150; file++) EXPECT_TRUE(IsDropped(file)) << file;
  EXPECT_EQ(cache_.kept_bytes(), 50u * 16 * kPage);
  EXPECT_EQ(list_.ios()[0].size, kBlock);
}

TEST_F(KvTierClockCacheTest, WhatWasHotOnceCoolsDown) {
  Cached(1, 10);
  for (uint64_t file = 1000; file < 1020; file++) {
    Cached(file, 2);
    cache_.Drop(16 * kPage, &list_);
  }
  EXPECT_TRUE(IsDropped(1));
}

TEST_F(KvTierClockCacheTest, WhatIsAboutToBeReadStaysAndWrongGuessesGoFirst) {
  Cached(1, 1)->walk = 3;
  Cached(2, 9)->Set(Object::kGuessed | Object::kWrong);
  Cached(3, 1);
  cache_.Drop(16 * kPage, &list_);
  ASSERT_EQ(list_.size(), 1u);
  EXPECT_TRUE(IsDropped(2));
  cache_.Drop(~0ull >> 1, &list_);
  EXPECT_FALSE(IsDropped(1));
  EXPECT_TRUE(IsDropped(3));
}

TEST_F(KvTierClockCacheTest, WhatStayedIsCountedAgain) {
  Object* const object = Cached(1, 1);
  cache_.Drop(16 * kPage, &list_);
  EXPECT_EQ(cache_.kept_bytes(), 0u);
  cache_.NoteDropFailed(object);
  EXPECT_EQ(cache_.kept_bytes(), 16u * kPage);
}

TEST_F(KvTierClockCacheTest, AnEntryThatHadToGoTakesItsPagesAlong) {
  cache_.NoteDisplaced(*Cached(1, 3));
  cache_.Drop(0, &list_);
  ASSERT_EQ(list_.size(), 1u);
  EXPECT_EQ(cache_.kept_bytes(), 0u);
}

// While memory is not short, no drops are requested.
TEST_F(KvTierClockCacheTest, EntriesThatHadToGoAreBounded) {
  constexpr uint64_t kObjects = 100'000;
  for (uint64_t file = 1; file <= kObjects; file++) {
    Object object{.key = KeyOf(file, 0), .pages = 16, .heat = 1};
    cache_.NoteCached(&object, /*wanted=*/true);
    cache_.NoteDisplaced(object);
  }
  EXPECT_LE(cache_.kept_bytes(), ClockCache::kMostDisplaced * 16 * kPage);
  uint64_t dropped = 0;
  for (uint64_t before = 1; dropped != before; list_.Clear()) {
    before = dropped;
    cache_.Drop(0, &list_);
    dropped += list_.size();
  }
  EXPECT_LE(dropped, ClockCache::kMostDisplaced);
  EXPECT_GE(dropped, ClockCache::kMostDisplaced / 2);
  EXPECT_EQ(cache_.kept_bytes(), 0u);
}

TEST_F(KvTierClockCacheTest, ADisplacedObjectThatIsReadAgainStays) {
  Object* const object = Cached(1, 3);
  cache_.NoteDisplaced(*object);
  table_.Remove(object);
  Cached(1, 1);
  EXPECT_EQ(cache_.kept_bytes(), 16u * kPage) << "counted once";
  cache_.Drop(0, &list_);
  EXPECT_FALSE(IsDropped(1));
  EXPECT_EQ(cache_.kept_bytes(), 16u * kPage);
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
