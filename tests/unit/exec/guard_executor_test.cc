// SPDX-License-Identifier: Apache-2.0
// What the guard leaves of hostile policies, and that it does not touch a good one.
#include <cerrno>
#include <utility>
#include <vector>

#include "tests/unit/exec/executor_fixture.h"
#include "tests/unit/has.h"
#include "tests/unit/temp_tree.h"

namespace ppc {
namespace {

class GuardExecutorTest : public ExecutorTest {
 protected:
  static constexpr int kPasses = 4;  // 13 s each: within one back-off

  static constexpr uint64_t kFile = 64 * kMiB;
  static constexpr uint64_t kStartLoads = 32 * kMiB;

  // A reader in a loop over the first `bytes` of the file, which misses what is not there.
  void Pass(uint64_t bytes) {
    for (uint64_t at = 0; at < bytes; at += kMiB) {
      const Residency there = Value(backend_.Resident(1, at, kMiB, {}));
      if (there.resident < kMiB) backend_.Push(MissEvent(1, at, kMiB));
      Turn();
    }
    backend_.AdvanceClock(200 * kMs);
    Turn();
  }
  void StartWithoutGuard() {
    RuntimeConfig config;
    config.options.guard = false;
    Start(std::move(config));
  }
  // A policy that drops all of the file's beginning, which its reader maps.
  void DropMapped() {
    backend_.SetMapped(1, true);
    policy_.Want(PPC_WANT_EVICT);
    policy_.evict = [this](const miss_io*) {
      policy_.evict_list = {{.file = 1, .size = kFile, .flags = PPC_IO_UNMAP}};
    };
  }
  // Drops of what is mapped that had no effect.
  void CountRefused(uint64_t* refused) {
    policy_.done = [refused](const ppc_result& result) {
      if (result.kind == PPC_EVICTED && result.ok == 0) *refused += result.mapped;
    };
  }
  Json Guarded() { return runtime_->StatusJson()["services"][0].value("guard", Json::object()); }
  void LoadWhatIsNotRead() {
    policy_.control = [](const std::string&) { return std::string("{}"); };
    policy_.Want(PPC_WANT_PROGRESS | PPC_WANT_MANAGED_RA);
    policy_.LoadAhead(&next_, &end_);
    Start();
  }
  void StartAndLoad() {
    Tell("service_start");
    end_ = next_ + kStartLoads;
    Turn(20);
    backend_.Push(MissEvent(1, 128 * kMiB, kMiB));
    Turn();
  }
  void Tell(const char* op, const char* id = "svc") {
    ASSERT_TRUE(runtime_->Control({{"op", op}, {"service_id", id}}).ok()) << op;
  }

  uint64_t next_ = 0;
  uint64_t end_ = 0;
};

// Reads natively: the file, once.
TEST_F(GuardExecutorTest, APolicyThatDropsWhatIsMappedCostsNoMoreThanTheCredit) {
  uint64_t refused = 0;
  DropMapped();
  CountRefused(&refused);
  Start();
  for (int pass = 0; pass < kPasses; ++pass) Pass(kFile);
  EXPECT_LE(backend_.DiskReadBytes(), kFile + Guard::kUnmapCredit + 2 * kMiB);
  EXPECT_NE(Guarded()["state"], "open");
  EXPECT_NE(Guarded()["reason"], "");
  EXPECT_GT(refused, 0u);
}

TEST_F(GuardExecutorTest, WithoutTheGuardItReadsTheFileInEachPass) {
  DropMapped();
  StartWithoutGuard();
  for (int pass = 0; pass < kPasses; ++pass) Pass(kFile);
  EXPECT_GT(backend_.DiskReadBytes(), 3 * kFile);
  EXPECT_TRUE(Guarded().empty());
}

// Neither of drops nor of loads, however often they were wrong.
TEST_F(GuardExecutorTest, WithoutTheGuardNothingIsRefused) {
  constexpr uint64_t kUnread = 32 * kMiB;
  backend_.AddFile(2, "model/unread", kUnread);
  backend_.SetMapped(1, true);
  int refused = 0;
  policy_.Want(PPC_WANT_EVICT);
  policy_.plan = [&](const ppc_plan_request&) {
    policy_.list = {{.file = 2, .offset = 0, .size = kUnread}};
  };
  policy_.evict = [&](const miss_io*) {
    policy_.evict_list = {{.file = 1, .size = kUnread, .flags = PPC_IO_UNMAP},
                          {.file = 2, .size = kUnread}};
  };
  policy_.done = [&](const ppc_result& result) {
    refused += result.error == -EDQUOT || (result.kind == PPC_EVICTED && result.mapped > 0);
  };
  StartWithoutGuard();
  for (int pass = 0; pass < kPasses; ++pass) Pass(kUnread);
  EXPECT_EQ(refused, 0);
  EXPECT_GT(backend_.DiskReadBytes(), 2 * kPasses * (kUnread / 2));
  EXPECT_TRUE(Guarded().empty());
}

// A service that loads what its readers leave: at `ready` that is waste, and its next start is told
// less; `stop` ends what was counted.
TEST_F(GuardExecutorTest, ReadyAndStopEndAServicesLoad) {
  LoadWhatIsNotRead();
  for (int start = 0; start < 2; ++start) {
    StartAndLoad();
    EXPECT_EQ(Guarded()["waste_bytes"], 0) << "it may still be read";
    Tell("service_ready");
    EXPECT_EQ(Guarded()["waste_bytes"], kStartLoads);
    backend_.AdvanceClock(kNsPerSec);
    Turn();
    EXPECT_EQ(Guarded()["state"], "small_window");
    Tell("service_stop");
  }
  Tell("service_start");
  EXPECT_EQ(Guarded()["state"], "open") << "another start";
  EXPECT_EQ(Guarded()["waste_bytes"], 0);
  EXPECT_EQ(Guarded()["load_window"], Guard::kSmallWindow) << "two starts were wrong";
}

// The next service has its place, and has loaded nothing.
TEST_F(GuardExecutorTest, ALoadThatEndsAfterItsServiceCountsForNoOther) {
  uint64_t told = 0;
  policy_.done = [&](const ppc_result& result) { told += result.ok; };
  LoadWhatIsNotRead();
  Tell("service_start");
  end_ = kStartLoads;
  Turn();
  end_ = next_;
  const uint64_t in_flight = backend_.ResidentBytes(1);
  ASSERT_GT(in_flight, 0u);
  Tell("service_stop");
  Tell("service_start", "next");
  ASSERT_EQ(told, 0u);
  Turn();
  EXPECT_EQ(told, in_flight) << "to the policy alone";
  Tell("service_ready", "next");
  EXPECT_EQ(Guarded()["waste_bytes"], 0);
}

// It had no time to read it, and the next start is there to read what is loaded meanwhile.
TEST_F(GuardExecutorTest, WhatAProcessThatFailedHadNotReadIsNoWaste) {
  LoadWhatIsNotRead();
  for (int start = 0; start < 2; ++start) {
    StartAndLoad();
    Tell("service_failed");
  }
  Tell("service_start");
  EXPECT_EQ(Guarded()["load_window"], 0) << "as much as there is memory";
}

// Somebody drops the page cache: what is queued would be lost next.
TEST_F(GuardExecutorTest, WhatIsQueuedWhenLoadsVanishIsNotLoaded) {
  uint64_t next = 0;
  uint64_t end = 32 * kMiB;
  uint64_t interrupted = 0;
  policy_.Want(PPC_WANT_PROGRESS | PPC_WANT_MANAGED_RA);
  policy_.plan = [&](const ppc_plan_request&) {
    if (next >= end) return;
    policy_.list = {{.file = 1, .offset = next, .size = 32 * kMiB}};
    next += 32 * kMiB;
  };
  policy_.done = [&](const ppc_result& result) {
    interrupted += result.interrupted != 0 ? result.size : 0;
  };
  Start();
  Turn(2);
  end = 64 * kMiB;
  ASSERT_EQ(backend_.ResidentBytes(1), 32 * kMiB);
  ASSERT_TRUE(backend_.Evict({.file = 1, .offset = 0, .length = 32 * kMiB}).ok());
  for (int turn = 0; turn < 6; ++turn) {
    backend_.AdvanceClock(200 * kMs);
    ASSERT_EQ(runtime_->executor().RunOnce(), Executor::End::kRunning);
  }
  EXPECT_EQ(Guarded()["vanished_bytes"], 32 * kMiB);
  EXPECT_EQ(interrupted, 32 * kMiB);
  EXPECT_EQ(runtime_->loader().Queued(), 0u);
}

// The next runner of the directory knows it too.
TEST_F(GuardExecutorTest, WhereLoadsVanishedTheNextStartBeginsWithFew) {
  const TempTree kept;
  backend_.AddFile(2, "model/b", 48 * kMiB);
  policy_.control = [](const std::string&) { return std::string("{}"); };
  policy_.Want(PPC_WANT_PROGRESS | PPC_WANT_MANAGED_RA);
  bool has_asked = false;
  policy_.plan = [&](const ppc_plan_request&) {
    if (!std::exchange(has_asked, true)) policy_.list = {{.file = 2, .size = 32 * kMiB}};
  };
  const auto start = [&] {
    RuntimeConfig config;
    config.options.template_dir = kept.Root();
    Start(std::move(config));
    Tell("service_start");
  };
  start();
  EXPECT_EQ(Guarded()["load_window"], 0) << "as much as there is memory";
  Turn(2);
  ASSERT_EQ(backend_.ResidentBytes(2), 32 * kMiB);
  ASSERT_TRUE(backend_.Evict({.file = 2, .offset = 0, .length = 32 * kMiB}).ok());
  for (int turn = 0; turn < 6; ++turn) {
    backend_.AdvanceClock(200 * kMs);
    ASSERT_EQ(runtime_->executor().RunOnce(), Executor::End::kRunning);
  }
  runtime_.reset();
  start();
  EXPECT_EQ(Guarded()["load_window"], Guard::kNearWindow);
}

// It makes room for its loads itself, else memory would end them.
TEST_F(GuardExecutorTest, APolicyThatLoadsWhatNobodyReadsWithoutEndIsStopped) {
  backend_.AddFile(2, "model/unread", 32 * kMiB);
  uint64_t refused = 0;
  policy_.Want(PPC_WANT_EVICT);
  policy_.plan = [&](const ppc_plan_request&) {
    policy_.list = {{.file = 2, .offset = 0, .size = 32 * kMiB}};
  };
  policy_.evict = [&](const miss_io*) { policy_.evict_list = {{.file = 2, .size = 32 * kMiB}}; };
  CountRefused(&refused);
  Start();
  const auto go_on = [&] {
    for (int tick = 0; tick < 50; ++tick) {
      backend_.AdvanceClock(200 * kMs);
      Turn(2);
    }
  };
  go_on();
  EXPECT_EQ(Guarded()["state"], "no_drops");
  EXPECT_GT(refused, 0u);
  const uint64_t before = backend_.DiskReadBytes();
  go_on();
  EXPECT_EQ(backend_.DiskReadBytes(), before);
}

TEST_F(GuardExecutorTest, AGoodPolicyIsNotTouched) {
  static constexpr uint64_t kEnd = 64 * kMiB;
  uint64_t next = 0;
  uint64_t refused = 0;
  policy_.Want(PPC_WANT_PROGRESS | PPC_WANT_MANAGED_RA);
  policy_.LoadAhead(&next, &kEnd);
  policy_.done = [&](const ppc_result& result) { refused += result.error == -EDQUOT ? 1 : 0; };
  Start();
  Turn(20);
  for (uint64_t at = 0; at < 64 * kMiB; at += 4 * kMiB) {
    backend_.Push(ProgressEvent(1, at));
    Turn();
  }
  EXPECT_EQ(refused, 0u);
  EXPECT_EQ(Guarded()["state"], "open");
  EXPECT_EQ(Guarded()["refused_load_bytes"], 0);
  EXPECT_EQ(backend_.DiskReadBytes(), 64 * kMiB);
}

// The guard is told of hits while much lies unread, whatever the policy wants, which is not told.
TEST_F(GuardExecutorTest, APolicyThatWantsNoHitsIsJudgedByThem) {
  static constexpr uint64_t kLoads = 72 * kMiB;
  uint64_t next = 0;
  int told = 0;
  policy_.Want(PPC_WANT_MANAGED_RA);
  policy_.LoadAhead(&next, &kLoads);
  policy_.event = [&](const miss_io&) { ++told; };
  Start();
  EXPECT_FALSE(backend_.Attached().progress);
  Turn(40);
  ASSERT_EQ(next, kLoads);
  EXPECT_TRUE(backend_.Attached().progress);
  for (uint64_t at = 0; at < kLoads; at += 4 * kMiB) {
    backend_.Push(ProgressEvent(1, at));
    Turn();
  }
  backend_.AdvanceClock(kNsPerSec);
  Turn();
  EXPECT_FALSE(backend_.Attached().progress) << "all has been read";
  EXPECT_EQ(told, 0);
}

// Pages that are loaded for a service that populates its mappings are to look as if it had read
// them itself; those of a service that only faults are not.  Where its memory is limited, reclaim
// will look at the first ones before its reads have shown which of both it is.
TEST_F(GuardExecutorTest, LoadsOfAServiceThatPopulatesAreMarked) {
  uint64_t at = 8 * kMiB;
  bool is_wanted = false;
  std::vector<bool> marked;
  backend_.OnLoad([&](const LoadRequest& request) { marked.push_back(request.is_populated); });
  policy_.plan = [&](const ppc_plan_request&) {
    policy_.list.clear();
    if (!std::exchange(is_wanted, false)) return;
    policy_.list = {{.file = 1, .offset = at, .size = 2 * kMiB}};
    at += 2 * kMiB;
  };
  policy_.tick = [](uint64_t) {};
  Start();
  const auto read = [&](uint8_t flags) {
    for (uint64_t page = 0; page < 2 * kMiB; page += 512 << 10) {
      Event event = MissEvent(1, page, 512 << 10);
      event.flags = flags;
      backend_.Push(event);
      Turn();
    }
    marked.clear();
    is_wanted = true;
    for (int i = 0; i < 10; ++i) {
      backend_.AdvanceClock(100 * kMs);
      Turn();
    }
    EXPECT_FALSE(marked.empty());
    return !marked.empty() && marked.back();
  };
  EXPECT_TRUE(read(kEventMmap));
  for (int i = 0; i < 16; ++i) (void)read(kEventMmap);
  EXPECT_FALSE(read(kEventMmap));
  EXPECT_FALSE(read(kEventNotUser));
  EXPECT_TRUE(read(kEventMmap | kEventNotUser));
}

// The backend is told which loads are to be dropped again during the load.
TEST_F(GuardExecutorTest, BurntLoadsAreToldToTheBackend) {
  std::vector<bool> burnt;
  backend_.OnLoad([&](const LoadRequest& request) { burnt.push_back(request.is_burnt); });
  int plans = 0;
  policy_.plan = [&](const ppc_plan_request&) {
    policy_.list.clear();
    if (++plans > 2) return;
    const uint32_t flags = plans == 1 ? PPC_IO_BURN : 0;
    policy_.list = {{.file = 1, .offset = plans * 2 * kMiB, .size = 2 * kMiB, .flags = flags}};
  };
  Start();
  Turn(20);
  EXPECT_EQ(burnt, std::vector<bool>({true, false}));
}

TEST_F(GuardExecutorTest, AFailingDiskIsNotAskedWithoutEnd) {
  backend_.SetReadErrors(1, true);
  int loads = 0;
  backend_.OnLoad([&](const LoadRequest&) { ++loads; });
  policy_.plan = [&](const ppc_plan_request&) {
    policy_.list = {{.file = 1, .offset = 0, .size = 2 * kMiB}};
  };
  policy_.tick = [](uint64_t) {};
  Start();
  const uint64_t start = backend_.NowNs();
  while (backend_.NowNs() < start + 30 * kNsPerSec) {
    Turn();
    backend_.AdvanceClock(100 * kMs);
  }
  // As often as a plan is asked for before the first result, and twice.
  EXPECT_LE(loads, 6);
  EXPECT_GT(Guarded()["failing_bytes"], 0);
  EXPECT_EQ(Guarded()["state"], "read_errors");
  EXPECT_EQ(Guarded()["reason"], "reads of model/a failed");
}

// What is there already costs a look at the page cache each time.
TEST_F(GuardExecutorTest, WhoAsksForTheSameWithoutEndIsAskedOnceATick) {
  uint64_t plans = 0;
  uint64_t ticks = 0;
  policy_.plan = [&](const ppc_plan_request&) {
    ++plans;
    policy_.list.push_back({.file = 1, .size = 8 * kMiB});
  };
  policy_.tick = [&](uint64_t) { ++ticks; };
  Start();
  Turn(100);  // 200 MiB found, twice the memory
  EXPECT_GT(plans, 2 * 100 / 8);
  const uint64_t plans_before = std::exchange(plans, 0);
  ticks = 0;
  Turn(400);
  EXPECT_GT(ticks, 0u);
  EXPECT_LE(plans, ticks + 1) << plans_before;
  EXPECT_EQ(backend_.DiskReadBytes(), 8 * kMiB);
}

}  // namespace
}  // namespace ppc
