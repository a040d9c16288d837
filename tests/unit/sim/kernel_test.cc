// SPDX-License-Identifier: Apache-2.0
#include "sim/kernel.h"

#include <gtest/gtest.h>

#include "tests/unit/units.h"

namespace ppc::sim {
namespace {

class KernelTest : public ::testing::Test {
 protected:
  KernelTest() {
    process_.pid = 7;
    thread_.process = &process_;
    thread_.tid = 7;
    file_ = cache_.AddFile("f", 16 * kMiB, "");
  }
  // Runs in a fiber, to its end.
  void Do(std::function<void()> body) {
    Fiber* fiber = scheduler_.Spawn(std::move(body));
    ASSERT_TRUE(scheduler_.RunUntil([&] { return fiber->IsDone(); }, 1'000'000'000'000));
  }
  void MapAndTouch(bool through_ppc, uint64_t offset, uint64_t bytes) {
    Do([&, through_ppc, offset, bytes] {
      open_ = kernel_.Open(&thread_, file_, through_ppc, false);
      kernel_.Access(&thread_, open_, offset, bytes);
    });
  }
  size_t Count(EventKind kind) {
    size_t count = 0;
    for (const Event& event : kernel_.device(0).events) count += event.kind == kind;
    return count;
  }

  Scheduler scheduler_;
  Disk disk_{&scheduler_, {}};
  PageCache cache_{MemoryOptions{}};
  Kernel kernel_{&scheduler_, &disk_, &cache_, KernelOptions{}};
  CacheFile* file_ = nullptr;
  OpenFile* open_ = nullptr;
  Process process_;
  Thread thread_;
};

TEST_F(KernelTest, NativeMappingReads128KiBAtATime) {
  MapAndTouch(false, 0, 8 * kMiB);
  const DiskStats& disk = disk_.stats();
  EXPECT_GE(disk.bytes, 8 * kMiB);
  EXPECT_LE(disk.bytes, 8 * kMiB + 256 * 1024);
  EXPECT_NEAR(static_cast<double>(disk.requests), 64, 4);
  EXPECT_TRUE(kernel_.device(0).events.empty());
}

TEST_F(KernelTest, ReadAheadFollowsTheSetting) {
  kernel_.SetReadAhead(4 * kMiB);
  MapAndTouch(false, 0, 8 * kMiB);
  EXPECT_LE(disk_.stats().requests, 16u);
}

TEST_F(KernelTest, AFaultInTheMiddleReadsAroundIt) {
  MapAndTouch(false, 4 * kMiB, 1);
  EXPECT_EQ(disk_.stats().bytes, 128 * 1024u);
  EXPECT_EQ(cache_.page(file_->first + 1024 - 16).state, PageState::kUptodate);
  EXPECT_EQ(cache_.page(file_->first + 1024 + 16).state, PageState::kAbsent);
}

TEST_F(KernelTest, SequentialReadsAreReadAhead) {
  Do([&] {
    OpenFile* open = kernel_.Open(&thread_, file_, false, false);
    for (uint64_t at = 0; at < 4 * kMiB; at += 64 << 10) kernel_.Read(&thread_, open, at, 64 << 10);
  });
  EXPECT_LE(disk_.stats().requests, 40u);
  EXPECT_LE(disk_.stats().bytes, 4 * kMiB + 256 * 1024);
}

TEST_F(KernelTest, RandomReadsAreNot) {
  Do([&] {
    OpenFile* open = kernel_.Open(&thread_, file_, false, false);
    for (const uint64_t mib : {9u, 3u, 12u, 6u}) kernel_.Read(&thread_, open, mib * kMiB, kPage);
  });
  EXPECT_EQ(disk_.stats().bytes, 4 * kPage);
}

TEST_F(KernelTest, AManagedMissLoadsItsWindowAndIsTold) {
  kernel_.Attach(0, {.managed_readahead = true});
  MapAndTouch(true, kMiB + 5 * kPage, kMiB);
  EXPECT_EQ(disk_.stats().bytes, 2 * kMiB);
  EXPECT_EQ(disk_.stats().requests, 2u);
  ASSERT_EQ(kernel_.device(0).events.size(), 2u);
  EXPECT_EQ(kernel_.device(0).events[0].kind, EventKind::kMissFault);
  EXPECT_EQ(kernel_.device(0).events[0].offset, kMiB + 5 * kPage);
  EXPECT_EQ(kernel_.device(0).events[0].length, kPage);
  EXPECT_EQ(kernel_.device(0).events[1].offset, 2 * kMiB);
}

TEST_F(KernelTest, AFileSetBackIsNative) {
  kernel_.Attach(0, {.managed_readahead = true});
  file_->is_native = true;
  MapAndTouch(true, 4 * kMiB, 1);
  EXPECT_EQ(disk_.stats().bytes, 128 * 1024u);
  EXPECT_EQ(Count(EventKind::kMissFault), 1u);
}

TEST_F(KernelTest, HitsCrossBeacons) {
  MapAndTouch(false, 0, 16 * kMiB);
  kernel_.Attach(0, {.managed_readahead = true, .progress = true, .beacon_bytes = kMiB});
  process_.slot = 1;
  MapAndTouch(true, 0, 16 * kMiB);
  EXPECT_EQ(Count(EventKind::kProgress), 16u);
  EXPECT_EQ(kernel_.device(0).events.size(), 16u);
}

TEST_F(KernelTest, TracingSeesEveryAccessMerged) {
  kernel_.Attach(0, {.managed_readahead = true, .trace = true});
  MapAndTouch(true, 0, 2 * kMiB);
  Do([&] { kernel_.Close(&thread_, open_); });
  uint64_t bytes = 0;
  for (const Event& event : kernel_.device(0).events) {
    if (event.kind == EventKind::kAccess) bytes += event.length;
  }
  EXPECT_EQ(bytes, 2 * kMiB);
  EXPECT_LE(Count(EventKind::kAccess), 8u);
}

TEST_F(KernelTest, DirectReadsPassTheCacheOnlyWhileNobodyIsAttached) {
  Do([&] {
    OpenFile* open = kernel_.Open(&thread_, file_, true, true);
    kernel_.Read(&thread_, open, 0, kMiB);
    EXPECT_EQ(cache_.resident_bytes(), 0u);
    kernel_.Attach(0, {.managed_readahead = true});
    kernel_.Read(&thread_, open, 0, kMiB);
    EXPECT_EQ(cache_.resident_bytes(), kMiB);
  });
}

TEST_F(KernelTest, LoadSaysWhatItDidAndStopsWhenCancelled) {
  LoadResult first, again, none;
  Do([&] {
    first = kernel_.Load({.file = file_->number, .offset = 0, .length = 3 * kMiB, .node = 1},
                         [] { return false; });
    again = kernel_.Load({.file = file_->number, .offset = 2 * kMiB, .length = 2 * kMiB},
                         [] { return false; });
    none = kernel_.Load({.file = file_->number, .offset = 8 * kMiB, .length = 2 * kMiB},
                        [] { return true; });
  });
  EXPECT_EQ(first.loaded, 3 * kMiB);
  EXPECT_EQ(cache_.node_bytes(1), 3 * kMiB);
  EXPECT_EQ(again.loaded, kMiB);
  EXPECT_EQ(again.resident, kMiB);
  EXPECT_EQ(none.stop, LoadStop::kCancelled);
  EXPECT_EQ(none.loaded, 0u);
}

TEST_F(KernelTest, AnEvictedPageFaultsAgain) {
  MapAndTouch(false, 0, kMiB);
  EXPECT_EQ(kernel_.Evict({.file = file_->number, .length = kMiB}).mapped, kMiB);
  EXPECT_EQ(kernel_.Evict({.file = file_->number, .length = kMiB, .unmap = true}).dropped, kMiB);
  const uint64_t before = disk_.stats().bytes;
  Do([&] { kernel_.Access(&thread_, open_, 0, kMiB); });
  EXPECT_GE(disk_.stats().bytes - before, kMiB);
}

// One bad page fails the request of 128 KiB that holds it; then the kernel reads page by page, and
// the reader loses what is bad and no more.
TEST_F(KernelTest, AReaderLosesTheBadPagesAlone) {
  const uint32_t bad = file_->first + 300;
  kernel_.SetBad({.first = bad, .end = bad + 2});
  for (const bool is_mapped : {false, true}) {
    const uint64_t failed = kernel_.failed_requests();
    thread_.errors = 0;
    Do([&] {
      OpenFile* open = kernel_.Open(&thread_, file_, false, false);
      if (is_mapped) kernel_.Access(&thread_, open, 0, 4 * kMiB);
      if (!is_mapped) kernel_.Read(&thread_, open, 0, 4 * kMiB);
    });
    EXPECT_EQ(thread_.errors, 2u);
    EXPECT_LE(kernel_.failed_requests() - failed, 4u);
    EXPECT_EQ(cache_.page(bad - 1).state, PageState::kUptodate);
    EXPECT_EQ(cache_.page(bad).state, PageState::kAbsent);
    EXPECT_EQ(cache_.page(bad + 2).state, PageState::kUptodate);
  }
}

// A page that could not be read is tried again by its reader alone: neither the module's windows
// nor loads do, which would read a whole window for each page of it.
TEST_F(KernelTest, APageThatCouldNotBeReadIsReadByItsReaderAlone) {
  const uint32_t pages = kMiB / kPage;
  kernel_.SetBad({.first = file_->first, .end = file_->first + pages});
  kernel_.Attach(0, {.managed_readahead = true});
  Do([&] {
    OpenFile* open = kernel_.Open(&thread_, file_, /*through_ppc=*/true, false);
    kernel_.Access(&thread_, open, 0, kMiB);
  });
  EXPECT_EQ(thread_.errors, pages);
  EXPECT_LE(disk_.stats().bytes, 3 * kMiB) << "the window, then each page";
  const uint64_t before = disk_.stats().bytes;
  const uint64_t from_ns = scheduler_.NowNs();
  Do([&] { (void)kernel_.Load({.file = file_->number, .length = kMiB}, [] { return false; }); });
  EXPECT_EQ(disk_.stats().bytes, before);
  EXPECT_GT(scheduler_.NowNs(), from_ns) << "a load that finds nothing to do takes time";
}

TEST_F(KernelTest, ALoadOfABadRangeSaysWhatFailed) {
  kernel_.SetBad({.first = file_->first, .end = file_->first + 1});
  LoadResult result;
  Do([&] {
    result = kernel_.Load({.file = file_->number, .length = 4 * kMiB}, [] { return false; });
  });
  EXPECT_EQ(result.failed, kMiB) << "a request";
  EXPECT_EQ(result.loaded, 3 * kMiB);
}

// Else the reader of a mapping reads a request of the loader's page by page.
TEST_F(KernelTest, AnObserversLoadLeavesNoPageThatFailed) {
  for (const bool observes : {false, true}) {
    Kernel kernel(&scheduler_, &disk_, &cache_, KernelOptions{.observes = observes});
    cache_.DropEverything();
    kernel.SetBad({.first = file_->first, .end = file_->first + 1});
    Do([&] { (void)kernel.Load({.file = file_->number, .length = kMiB}, [] { return false; }); });
    EXPECT_EQ(cache_.page(file_->first + 1).failed, !observes);
  }
}

// As measured with llama.cpp on 6.18: next to nothing is read again while the model fits, and with
// a tenth too little memory nearly all of it at each pass, in the read-ahead's requests.
TEST(KernelPasses, OverMoreThanMemoryReadNearlyAllEachTime) {
  struct Case {
    double memory;
    double least, most;  // of the file, read at each pass
  };
  for (const Case& c : {Case{1.05, 0, 0.001}, Case{0.9, 0.75, 1.05}, Case{0.6, 0.9, 1.05}}) {
    constexpr uint64_t kBytes = 64 * kMiB;
    constexpr int kPasses = 6;
    Scheduler scheduler;
    Disk disk(&scheduler, {});
    PageCache cache({.limit_bytes = static_cast<uint64_t>(c.memory * kBytes), .nodes = 1});
    Kernel kernel(&scheduler, &disk, &cache, KernelOptions{});
    CacheFile* file = cache.AddFile("f", kBytes, "");
    Process process{.pid = 7};
    Thread thread{.process = &process, .tid = 7};
    std::vector<uint64_t> read;
    Fiber* fiber = scheduler.Spawn([&] {
      OpenFile* open = kernel.Open(&thread, file, false, false);
      for (int pass = 0; pass < kPasses; ++pass) {
        kernel.Access(&thread, open, 0, kBytes);
        read.push_back(disk.stats().bytes);
      }
    });
    ASSERT_TRUE(scheduler.RunUntil([&] { return fiber->IsDone(); }, 1'000'000'000'000));
    EXPECT_LE(read[0], kBytes + kMiB) << c.memory;
    const double again = static_cast<double>(read[kPasses - 1] - read[0]) / kBytes / (kPasses - 1);
    EXPECT_GE(again, c.least) << c.memory;
    EXPECT_LE(again, c.most) << c.memory;
  }
}

// Each mount's events are for its own reader, and one without a lease has none.
TEST_F(KernelTest, AMountIsNativeAgainWhenItsLeaseHasRunOut) {
  CacheFile* other = cache_.AddFile("g", 16 * kMiB, "");
  other->mount = 1;
  kernel_.Attach(0, {.managed_readahead = true});
  kernel_.Attach(1, {.managed_readahead = true});
  MapAndTouch(true, 0, kPage);
  EXPECT_EQ(kernel_.device(0).events.size(), 1u);
  EXPECT_TRUE(kernel_.device(1).events.empty());
  kernel_.Expire(1);
  EXPECT_TRUE(kernel_.device(1).is_expired);
  file_ = other;
  const uint64_t before = disk_.stats().bytes;
  MapAndTouch(true, 4 * kMiB, kPage);
  EXPECT_TRUE(kernel_.device(1).events.empty());
  EXPECT_EQ(disk_.stats().bytes - before, 128u * 1024);
  kernel_.Attach(1, {.managed_readahead = true});
  EXPECT_FALSE(kernel_.device(1).is_expired);
  MapAndTouch(true, 8 * kMiB, kPage);
  EXPECT_EQ(kernel_.device(1).events.size(), 1u);
}

}  // namespace
}  // namespace ppc::sim
