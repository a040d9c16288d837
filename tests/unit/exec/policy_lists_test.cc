// SPDX-License-Identifier: Apache-2.0
// What becomes of a policy's lists, and the look at the page cache before it is asked.
#include "daemon/exec/policy_lists.h"

#include "daemon/exec/residency_scan.h"
#include "tests/unit/exec/parts_fixture.h"

namespace ppc {
namespace {

class PolicyListsTest : public PartsTest {
 protected:
  // What reaches the backend of a list of loads.
  const std::vector<LoadRequest>& Load(const std::vector<ppc_io>& ios) {
    MakeLists()->SubmitLoads(RawList{.ios = ios});
    loader_->RunUntilIdle();
    return backend_.loads;
  }
};

TEST_F(PolicyListsTest, OnlyASmallLoadIsOneOfMany) {
  const std::vector<LoadRequest>& loads =
      Load({{.file = 1, .size = 64 << 10, .flags = PPC_IO_MANY},
            {.file = 1, .offset = 16 * kMiB, .size = 2 * kMiB, .flags = PPC_IO_MANY},
            {.file = 1, .offset = 32 * kMiB, .size = 64 << 10}});
  ASSERT_EQ(loads.size(), 3u);
  for (const LoadRequest& load : loads) EXPECT_EQ(load.is_small, load.offset == 0) << load.offset;
}

// The first thread is the other node's.
TEST_F(PolicyListsTest, AnXpuMeansItsNode) {
  const std::vector<LoadRequest>& loads = Load({{.file = 1, .size = kPageBytes, .xpu = 0}});
  ASSERT_EQ(loads.size(), 1u);
  EXPECT_EQ(loads[0].node, 1);
}

TEST_F(PolicyListsTest, WhatIsBeyondTheLongestListIsCountedToo) {
  const std::vector<ppc_io> ios = {{.file = 1, .size = kPageBytes}, {.file = 9, .size = 1}};
  MakeLists()->SubmitLoads(RawList{.ios = ios, .refused = 5});
  EXPECT_EQ(lists_->Stats().refused_surplus, 5u);
  EXPECT_EQ(lists_->Stats().prefetch_ranges, 1u);
  EXPECT_EQ(lists_->Stats().refused[static_cast<size_t>(IoRefusal::kFile)], 1u);
}

// Its charge handle goes with it, and what stands in its memory cgroup for that.
TEST_F(PolicyListsTest, WhoPaidGoesWithItsService) {
  ASSERT_TRUE(services_->Start({{"service_id", "a"}}).ok());
  const std::weak_ptr<Payer> payer = services_->Find("a")->payer;
  policy_.evict = [&](const miss_io*) { policy_.evict_list = {{.file = 1, .size = 2 * kMiB}}; };
  (void)Load({{.file = 1, .size = 2 * kMiB}});
  lists_->AskForEvictions(nullptr);
  while (evictor_.RunOne()) {
  }
  EXPECT_EQ(backend_.ResidentBytes(1), 0u);
  services_->Stop("a");
  EXPECT_TRUE(payer.expired());
}

TEST_F(PolicyListsTest, WhatIsDroppedIsNotUsedByTheServiceItIsOf) {
  ASSERT_TRUE(services_->Start({{"service_id", "a"}}).ok());
  ASSERT_TRUE(services_->Start({{"service_id", "b"}}).ok());
  const std::optional<uint32_t> b = services_->NumberOf("b");
  ASSERT_TRUE(b);
  ASSERT_NE(*b, 0u);
  (void)backend_.Load({.file = 1, .length = 8 * kMiB});
  policy_.evict = [&](const miss_io*) {
    policy_.evict_list = {{.file = 1, .size = 4 * kMiB, .service = *b}};
  };
  MakeLists()->AskForEvictions(nullptr);
  while (evictor_.RunOne()) {
  }
  const Budget::State look{.memory = {.used = 10 * kMiB}};
  EXPECT_EQ(services_->Get(*b)->payer->budget->Now(look).memory.used, 6 * kMiB);
  EXPECT_EQ(services_->Find("a")->payer->budget->Now(look).memory.used, 10 * kMiB);
}

TEST_F(PolicyListsTest, FlagsOfWhatIsToBeDroppedReachTheBackend) {
  const miss_io* asked_for = nullptr;
  policy_.evict = [&](const miss_io* event) {
    asked_for = event;
    policy_.evict_list = {
        {.file = 1, .offset = 0, .size = kMiB},
        {.file = 1, .offset = 4 * kMiB, .size = kMiB, .flags = PPC_IO_UNMAP},
        {.file = 1, .offset = 8 * kMiB, .size = kMiB, .flags = PPC_IO_EVEN_LOCKED},
        {.file = 1, .offset = 12 * kMiB, .size = kMiB, .flags = PPC_IO_DRAIN}};
  };
  miss_io event{};
  MakeLists()->AskForEvictions(&event);
  EXPECT_EQ(asked_for, &event);
  EXPECT_EQ(lists_->Stats().evict_ranges, 4u);
  while (evictor_.RunOne()) {
  }
  ASSERT_EQ(backend_.evicts.size(), 4u);
  for (const EvictRequest& evict : backend_.evicts) {
    EXPECT_EQ(evict.unmap, evict.offset == 4 * kMiB) << evict.offset;
    EXPECT_EQ(evict.even_locked, evict.offset == 8 * kMiB) << evict.offset;
    EXPECT_EQ(evict.drain, evict.offset == 12 * kMiB) << evict.offset;
  }
}

TEST_F(PolicyListsTest, WhoHasNothingToSayOfDroppingIsNotAsked) {
  MakeLists()->AskForEvictions();
  EXPECT_EQ(host_->Stats(Hook::kEvict).calls, 0u);
  EXPECT_EQ(evictor_.Stats().queued, 0u);
}

// The account binds and leaves no room.
class Bound : public MemorySource {
 public:
  MemoryReading Read(bool) override {
    return {.limit = 100 * kMiB, .used = 90 * kMiB, .threshold = 80 * kMiB, .is_estimate = true};
  }
};

class ResidencyScanTest : public PartsTest {
 protected:
  ResidencyScanTest() {
    services_ = std::make_unique<ServiceTable>(
        &backend_, &topology_, SysRoots{tree_.Root(), tree_.Root()},
        [](const std::shared_ptr<const Cgroup>&) { return std::make_shared<Bound>(); });
    residency_scan_ = std::make_unique<ResidencyScan>(
        ResidencyScan::Parts{&backend_, &evictor_, &files_, services_.get(), &own_cache_},
        8 * kMiB);
  }
  void Read(uint64_t file) {
    backend_.AddFile(file, "small/" + std::to_string(file), kPageBytes);
    FileCopy copy;
    ASSERT_TRUE(files_.Copy(file, backend_.NowNs(), &copy));
    ASSERT_TRUE(backend_.ReplayBackend::Load({.file = file, .length = kPageBytes}).ok());
    backend_.AdvanceClock(1);
  }
  // What the account says after a look.
  uint64_t Look() {
    residency_scan_->RefreshIfBound();
    while (evictor_.RunOne()) {
    }
    return own_cache_;
  }

  std::atomic<uint64_t> own_cache_{0};
  std::unique_ptr<ResidencyScan> residency_scan_;
};

// Else limits and shares would be overrun by what is not counted.
TEST_F(ResidencyScanTest, FilesThatWereForgottenCountWhileTheyHavePages) {
  constexpr uint64_t kFiles = 20000;
  constexpr uint64_t kFirst = 2;  // 1 is the fixture's
  for (uint64_t file = kFirst; file < kFirst + kFiles; ++file) Read(file);
  files_.Trim();
  ASSERT_LT(files_.Size(), kFiles);
  EXPECT_EQ(Look(), kFiles * kPageBytes);
  // One has gone, and of the others one is known again.
  (void)backend_.ReplayBackend::Evict({.file = kFirst, .length = kPageBytes});
  Read(kFirst + 1);
  EXPECT_EQ(Look(), (kFiles - 1) * kPageBytes);
  EXPECT_EQ(Look(), (kFiles - 1) * kPageBytes);
}

}  // namespace
}  // namespace ppc
