// SPDX-License-Identifier: Apache-2.0
// Readers' walks along chains: guesses, their times, and the cost of wrong ones.
#include "extras/kvtier/walks.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cerrno>
#include <set>
#include <vector>

namespace ppc::kvtier {
namespace {

constexpr uint64_t kBlockBytes = 1 << 20;
constexpr uint64_t kObjectPages = 16;

class KvTierWalksTest : public ::testing::Test {
 protected:
  // Reads a file, a millisecond after the last one; earlier requests are loaded.
  void Read(uint64_t file, int pid = 100) {
    now_ += 1'000'000;
    walks_.Arrive({.reader = {.pid = pid},
                   .service = 7,
                   .key = KeyOf(file, 0),
                   .pages = kObjectPages,
                   .now_ns = now_,
                   .is_miss = cached_.insert(file).second});
  }
  void ReadAll(const std::vector<uint64_t>& files) {
    for (const uint64_t file : files) {
      Read(file);
      PlanAndLoad();
    }
  }
  std::vector<uint64_t> Plan(uint64_t most_ahead = 64 << 20) {
    list_.Clear();
    walks_.Plan(7, 16 << 20, most_ahead, now_, &list_);
    std::vector<uint64_t> files;
    for (const ppc_io& io : list_.ios()) files.push_back(io.file);
    return files;
  }
  void Loaded(uint64_t file, int error = 0) {
    const bool is_new = error == 0 && cached_.insert(file).second;
    ppc_result result = {.kind = PPC_LOADED, .file = file, .size = kObjectPages * kPage};
    result.error = error;
    (is_new ? result.ok : result.resident) = error == 0 ? result.size : 0;
    loaded_ += is_new ? 1 : 0;
    walks_.Done(result, now_ + 100'000);
  }
  void PlanAndLoad() {
    for (const uint64_t file : Plan()) Loaded(file);
  }
  // Loads under way finish.
  void Rest() {
    now_ += 10'000'000'000;
    walks_.Tick(now_);
    cached_.clear();
    loaded_ = 0;
  }
  std::vector<uint64_t> Learn(const std::vector<uint64_t>& files) {
    ReadAll(files);
    Rest();
    return files;
  }
  static std::vector<uint64_t> Chain(uint64_t first, uint64_t count) {
    std::vector<uint64_t> chain(count);
    // Not in the order of their numbers.
    for (uint64_t i = 0; i < count; i++) chain[i] = first + i * 7919 % count;
    return chain;
  }
  const Object& Of(uint64_t file) { return *table_.Find(KeyOf(file, 0)); }

  ObjectTable table_{4 << 20};
  ClockCache cache_{&table_, kBlockBytes};
  PrefetchBudget budget_;
  std::vector<uint32_t> interrupted_;
  Walks walks_{&table_,
               &cache_,
               &budget_,
               {.block_bytes = kBlockBytes,
                .interrupt = [this](uint32_t, uint32_t group) { interrupted_.push_back(group); }}};
  ppc::IoList list_;
  std::set<uint64_t> cached_;
  uint64_t now_ = 1'000'000'000;
  uint64_t loaded_ = 0;
};

TEST_F(KvTierWalksTest, NothingIsGuessedOfWhatIsNotKnown) {
  ReadAll(Chain(1, 200));
  EXPECT_EQ(loaded_, 0u);
  EXPECT_EQ(Of(1).confidence, 1);
}

// Reads reported page by page count like one large read.
TEST_F(KvTierWalksTest, WhatMayBeGuessedIsAShareOfAllThatWasRead) {
  const uint64_t before = budget_.BytesAhead(1);
  for (uint64_t page = 0; page < kObjectPages; page++) {
    walks_.Arrive({.reader = {.pid = 100},
                   .service = 7,
                   .key = KeyOf(1, 0),
                   .first_page = static_cast<uint32_t>(page),
                   .pages = 1,
                   .now_ns = now_,
                   .is_miss = true});
  }
  EXPECT_EQ(budget_.BytesAhead(1), before + kObjectPages * kPage / PrefetchBudget::kReadPerWrong);
}

TEST_F(KvTierWalksTest, SomeAheadAtOnceWhereFirstGuessesAreRight) {
  const std::vector<uint64_t> chain = Learn(Chain(1, 200));
  Read(chain[0]);
  EXPECT_EQ(Plan().size(), 21u) << "64, but 1 MiB while little was read";
  budget_.NoteFirstGuess(false);
  Rest();
  Read(chain[0]);
  EXPECT_EQ(Plan().size(), 1u);
}

TEST_F(KvTierWalksTest, OneAheadFirstThenTwiceAsManyWithEach) {
  const std::vector<uint64_t> chain = Chain(1, 200);
  ReadAll(chain);
  budget_.NoteFirstGuess(false);
  Rest();
  // Too late each time, so that the distance is not the limit.
  std::vector<size_t> ahead;
  for (size_t i = 0; i < 6; i++) {
    Read(chain[i]);
    Plan();
    ahead.push_back(walks_.deepest());
  }
  EXPECT_EQ(ahead[0], 1u);
  EXPECT_EQ(ahead[1], 2u);
  for (size_t i = 1; i < ahead.size(); i++) EXPECT_LE(ahead[i], 2 * ahead[i - 1]);
  EXPECT_GE(ahead.back(), 8u);
}

TEST_F(KvTierWalksTest, AChainIsFollowedToItsEndWithFewMisses) {
  const std::vector<uint64_t> chain = Learn(Chain(1, 500));
  ReadAll(chain);
  EXPECT_GE(loaded_, 480u);
  EXPECT_EQ(budget_.wrong_bytes(), 0u);
  EXPECT_EQ(cache_.kept_bytes(), 500u * kObjectPages * kPage);
}

TEST_F(KvTierWalksTest, AReaderThatStopsGetsNoMore) {
  const std::vector<uint64_t> chain = Learn(Chain(1, 500));
  ReadAll({chain.begin(), chain.begin() + 100});
  const uint64_t before = loaded_;
  for (int i = 0; i < 50; i++) PlanAndLoad();
  EXPECT_EQ(loaded_, before);
  Rest();
  EXPECT_EQ(walks_.size(), 0u);
}

TEST_F(KvTierWalksTest, WhoLeavesTheChainGetsNoMoreOfIt) {
  const std::vector<uint64_t> chain = Learn(Chain(1, 500));
  ReadAll({chain.begin(), chain.begin() + 100});
  Read(2000);
  const std::vector<uint64_t> after = Plan();
  EXPECT_TRUE(after.empty());
  ReadAll(Chain(3000, 100));
  Rest();
  EXPECT_GT(budget_.wrong_bytes(), 0u);
  EXPECT_LE(budget_.wrong_bytes(), 20u * kObjectPages * kPage + PrefetchBudget::kFloorBytes);
  // The end of a chain: another object came, and is not relied on until it comes again.
  EXPECT_EQ(Of(chain[99]).confidence, 0);
}

TEST_F(KvTierWalksTest, RandomReadsCostNextToNothing) {
  uint64_t state = 12345;
  const auto pick = [&state] {
    return (state = state * 6364136223846793005 + 1442695040888963407) >> 33;
  };
  uint64_t read = 0;
  for (int i = 0; i < 20'000; i++) {
    Read(1 + pick() % 5000);
    PlanAndLoad();
    read++;
    cached_.clear();
  }
  EXPECT_LE(loaded_, read / 20);
}

TEST_F(KvTierWalksTest, ALittleDisorderIsTheSameChain) {
  std::vector<uint64_t> chain = Chain(1, 500);
  Learn(chain);
  for (size_t i = 10; i + 1 < chain.size(); i += 5) std::swap(chain[i], chain[i + 1]);
  ReadAll(chain);
  EXPECT_GE(loaded_, 450u);
  EXPECT_EQ(walks_.size(), 1u);
}

TEST_F(KvTierWalksTest, TwoChainsOfOneReaderAreFollowedBeside) {
  const std::vector<uint64_t> a = Chain(1, 300);
  const std::vector<uint64_t> b = Chain(1001, 300);
  ReadAll(a);
  Rest();
  ReadAll(b);
  Rest();
  for (size_t i = 0; i < a.size(); i++) ReadAll({a[i], b[i]});
  EXPECT_GE(loaded_, 560u);
  EXPECT_EQ(Of(a[150]).next, KeyOf(a[151], 0));
}

TEST_F(KvTierWalksTest, ReadersDoNotDisturbOneAnother) {
  const std::vector<uint64_t> chain = Learn(Chain(1, 200));
  for (size_t i = 0; i < chain.size(); i++) {
    Read(chain[i], 100);
    Read(5000 + i * 17 % 200, 200);
    PlanAndLoad();
  }
  EXPECT_GE(loaded_, 180u);
}

TEST_F(KvTierWalksTest, HitsThatNobodyToldOfAreCaughtUpWith) {
  const std::vector<uint64_t> chain = Learn(Chain(1, 400));
  // Only misses are reported.
  for (const uint64_t file : chain) {
    if (cached_.contains(file)) continue;
    Read(file);
    PlanAndLoad();
  }
  EXPECT_GE(loaded_, 350u);
}

TEST_F(KvTierWalksTest, WhatIsThereIsNotAskedForUnlessItTurnsOutToBeGone) {
  const std::vector<uint64_t> chain = Chain(1, 300);
  ReadAll(chain);
  ReadAll(chain);
  size_t asked = 0;
  for (const uint64_t file : chain) {
    Read(file);
    asked += Plan().size();
  }
  EXPECT_EQ(asked, 0u);
  cached_.clear();  // everything was dropped
  ReadAll(chain);
  EXPECT_GE(loaded_, 280u);
}

TEST_F(KvTierWalksTest, AFileThatIsGoneIsLeftOut) {
  const std::vector<uint64_t> chain = Learn(Chain(1, 100));
  for (size_t i = 0; i < chain.size(); i++) {
    if (i == 50) continue;
    Read(chain[i]);
    for (const uint64_t file : Plan()) Loaded(file, file == chain[50] ? -ESTALE : 0);
  }
  EXPECT_GE(loaded_, 90u);
  EXPECT_TRUE(Of(chain[50]).Is(Object::kGone));
  Rest();
  for (size_t i = 0; i < chain.size(); i++) {
    if (i == 50) continue;
    Read(chain[i]);
    for (const uint64_t file : Plan()) {
      EXPECT_NE(file, chain[50]);
      Loaded(file);
    }
  }
}

TEST_F(KvTierWalksTest, WhatWasGivenUpIsInterrupted) {
  const std::vector<uint64_t> chain = Learn(Chain(1, 200));
  for (size_t i = 0; i < 50; i++) {
    Read(chain[i]);
    Plan();  // requested, but never loaded
  }
  now_ += 10'000'000'000;
  walks_.Tick(now_);
  EXPECT_EQ(interrupted_.size(), 1u);
  EXPECT_EQ(Of(chain[60]).walk, 0);
}

TEST_F(KvTierWalksTest, DeadlinesFollowThePace) {
  const std::vector<uint64_t> chain = Learn(Chain(1, 200));
  ReadAll({chain.begin(), chain.begin() + 50});
  Read(chain[50]);
  walks_.Plan(7, 16 << 20, 64 << 20, now_, &list_);
  list_.Clear();
  Read(chain[51]);
  walks_.Plan(7, 16 << 20, 64 << 20, now_, &list_);
  ASSERT_FALSE(list_.empty());
  const auto* const timed = reinterpret_cast<const timed_prefetch_ios*>(list_.Prefetch());
  ASSERT_NE(timed->list.flags & PPC_IOS_DEADLINES, 0u);
  EXPECT_GT(timed->deadline_ns[0], now_);
  EXPECT_LT(timed->deadline_ns[0], now_ + 1'000'000'000);
}

TEST_F(KvTierWalksTest, AheadIsBounded) {
  const std::vector<uint64_t> chain = Learn(Chain(1, 3000));
  for (const uint64_t file : chain) {
    Read(file);
    for (const uint64_t next : Plan(10 * kObjectPages * kPage)) Loaded(next);
    ASSERT_LE(walks_.deepest(), 10u);
  }
}

}  // namespace
}  // namespace ppc::kvtier
