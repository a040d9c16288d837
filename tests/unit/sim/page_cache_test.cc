// SPDX-License-Identifier: Apache-2.0
#include "sim/page_cache.h"

#include <gtest/gtest.h>

namespace ppc::sim {
namespace {

class PageCacheTest : public ::testing::Test {
 protected:
  void Read(PageCache* cache, uint32_t first, uint32_t pages, int node = 0,
            bool by_loader = false) {
    for (uint32_t i = first; i < first + pages; ++i) {
      cache->Add(i, node, by_loader, 1);
      cache->ReadDone(i);
    }
  }
  static uint32_t Resident(PageCache* cache, uint32_t first, uint32_t pages) {
    uint32_t count = 0;
    for (uint32_t i = first; i < first + pages; ++i) {
      count += cache->page(i).state == PageState::kUptodate;
    }
    return count;
  }
};

TEST_F(PageCacheTest, AtTheLimitTheOldestGoesAndIsCounted) {
  PageCache cache({.limit_bytes = 128 * kPage, .other_bytes = 28 * kPage});
  cache.AddFile("f", 1000 * kPage, "");
  Read(&cache, 0, 100);
  EXPECT_EQ(cache.stats().limit_hits, 0u);
  Read(&cache, 100, 1);
  EXPECT_EQ(cache.stats().limit_hits, 1u);
  EXPECT_EQ(cache.stats().reclaimed, 32 * kPage);  // a batch
  EXPECT_EQ(Resident(&cache, 0, 32), 0u);
  EXPECT_EQ(Resident(&cache, 32, 69), 69u);
  EXPECT_EQ(cache.stats().peak, 100 * kPage);
}

TEST_F(PageCacheTest, WhatIsMappedAndTouchedGetsASecondChance) {
  PageCache cache({.limit_bytes = 100 * kPage});
  cache.AddFile("f", 1000 * kPage, "");
  Read(&cache, 0, 100);
  cache.Map(3, 1);
  cache.Touch(3, 1);
  Read(&cache, 100, 1);
  EXPECT_EQ(Resident(&cache, 0, 32), 1u);
  EXPECT_EQ(cache.page(3).state, PageState::kUptodate);
}

// Nothing has to be read for it.
TEST_F(PageCacheTest, MemoryThatAProcessTakesIsReclaimedFromFiles) {
  PageCache cache({.limit_bytes = 200 * kPage});
  cache.AddFile("f", 1000 * kPage, "");
  Read(&cache, 0, 150);
  cache.SetOther(150 * kPage);
  EXPECT_LE(cache.resident_bytes(), 50 * kPage);
  EXPECT_GE(cache.resident_bytes(), 18 * kPage) << "no more than a batch beyond it";
}

// Pages that are being read cannot go: the page is added beyond the limit.
TEST_F(PageCacheTest, ReclaimGivesUpWhereAllPagesAreBeingRead) {
  PageCache cache({.limit_bytes = 100 * kPage});
  cache.AddFile("f", 1000 * kPage, "");
  for (uint32_t i = 0; i < 101; ++i) cache.Add(i, 0, /*by_loader=*/true, 1);
  EXPECT_EQ(cache.stats().limit_hits, 3u);
  EXPECT_EQ(cache.resident_bytes(), 101 * kPage);
}

// Where the first batch is in use the next ones are looked at, and no more goes than from one.
TEST_F(PageCacheTest, ReclaimEndsWithTheFirstBatchThatFreesSomething) {
  PageCache cache({.limit_bytes = 100 * kPage});
  cache.AddFile("f", 1000 * kPage, "");
  Read(&cache, 0, 100);
  for (uint32_t i = 0; i < 40; ++i) {
    cache.Map(i, 1);
    cache.Touch(i, 1);
  }
  Read(&cache, 100, 1);
  EXPECT_EQ(Resident(&cache, 0, 40), 40u);
  EXPECT_EQ(cache.stats().reclaimed, 24 * kPage);  // the rest of the second batch
}

TEST_F(PageCacheTest, TouchedByTwoProcessesIsActiveAfterUnmapping) {
  PageCache cache({});
  cache.AddFile("f", 10 * kPage, "");
  Read(&cache, 0, 2);
  for (const uint32_t process : {0u, 1u}) {
    cache.Map(0, process);
    cache.Touch(0, process);
    cache.Unmap(0, 2, process);
  }
  EXPECT_EQ(cache.page(0).list, 2);
  EXPECT_EQ(cache.page(1).list, 1);
  EXPECT_EQ(cache.page(0).mapped, 0);
}

TEST_F(PageCacheTest, DropsWhatIsMappedOnlyWhenAskedTo) {
  PageCache cache({});
  cache.AddFile("f", 10 * kPage, "");
  cache.Add(0, 0, true, 1);
  EXPECT_FALSE(cache.Drop(0, true)) << "is being read";
  cache.ReadDone(0);
  cache.Map(0, 2);
  EXPECT_FALSE(cache.Drop(0, false));
  EXPECT_TRUE(cache.Drop(0, true));
  EXPECT_FALSE(cache.Drop(0, true)) << "is gone";
  // What the policy dropped and a process misses is a refault; what it loads again is not.
  Read(&cache, 0, 1, 0, /*by_loader=*/false);
  EXPECT_EQ(cache.stats().refaulted, kPage);
  EXPECT_EQ(cache.stats().reread, kPage);
  EXPECT_TRUE(cache.Drop(0, false));
  Read(&cache, 0, 1, 0, /*by_loader=*/true);
  EXPECT_EQ(cache.stats().refaulted, kPage);
}

TEST_F(PageCacheTest, AFullNodeSpills) {
  PageCache cache({.nodes = 2, .node_bytes = 4 * kPage});
  cache.AddFile("f", 10 * kPage, "");
  cache.SetPageNodes({0, 0, 0, 0, 0, 0});
  Read(&cache, 0, 6, 0, /*by_loader=*/true);
  EXPECT_EQ(cache.node_bytes(0), 4 * kPage);
  EXPECT_EQ(cache.node_bytes(1), 2 * kPage);
  EXPECT_EQ(cache.stats().spilled, 2 * kPage);
  EXPECT_EQ(cache.stats().misplaced, 2 * kPage);
  EXPECT_EQ(cache.stats().exclusive, 6 * kPage);
}

TEST_F(PageCacheTest, SomebodyDropsWhatIsNotMapped) {
  PageCache cache({});
  cache.AddFile("f", 10 * kPage, "");
  Read(&cache, 0, 6);
  cache.Map(2, 1);
  cache.Add(7, 0, false, 1);  // is being read
  cache.DropUnmapped();
  EXPECT_EQ(Resident(&cache, 0, 10), 1u);
  EXPECT_EQ(cache.page(2).state, PageState::kUptodate);
  EXPECT_EQ(cache.page(7).state, PageState::kReading);
  EXPECT_EQ(cache.stats().evicted, 0u) << "not the policy's";
}

// Reclaim looks through them once, not again for each page that is added.
TEST_F(PageCacheTest, WhereAllPagesAreBeingReadTheLimitIsExceeded) {
  PageCache cache({.limit_bytes = 4 * kPage});
  cache.AddFile("f", 10 * kPage, "");
  for (uint32_t page = 0; page < 5; ++page) cache.Add(page, 0, false, 1);
  const uint64_t hits = cache.stats().limit_hits;
  EXPECT_GT(hits, 0u);
  for (uint32_t page = 5; page < 8; ++page) cache.Add(page, 0, false, 1);
  EXPECT_EQ(cache.stats().limit_hits, hits);
  EXPECT_EQ(cache.resident_bytes(), 8 * kPage);
  for (uint32_t page = 0; page < 8; ++page) cache.ReadDone(page);
  cache.Add(8, 0, false, 1);
  EXPECT_LE(cache.resident_bytes(), 4 * kPage);
}

TEST_F(PageCacheTest, APageThatCannotBeReadIsAbsent) {
  PageCache cache({});
  cache.AddFile("f", 10 * kPage, "");
  cache.Add(3, 0, false, 1);
  cache.ReadFailed(3);
  EXPECT_EQ(cache.page(3).state, PageState::kAbsent);
  EXPECT_TRUE(cache.page(3).failed);
  EXPECT_EQ(cache.resident_bytes(), 0u);
  Read(&cache, 3, 1);
  EXPECT_FALSE(cache.page(3).failed);
}

}  // namespace
}  // namespace ppc::sim
