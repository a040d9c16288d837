// SPDX-License-Identifier: Apache-2.0
// The workers are turned by hand: a look-up is over when a test says so.
#include "daemon/exec/event_intake.h"

#include <unistd.h>

#include <map>

#include "tests/unit/exec/parts_fixture.h"

namespace ppc {
namespace {

class EventIntakeTest : public PartsTest {
 protected:
  EventIntakeTest() {
    policy_.event = [this](const miss_io& event) { seen_.push_back(event); };
    policy_.prefetch = [this](const miss_io& miss) { missed_.push_back(miss); };
    MakeLists();
    residency_scan_ = std::make_unique<ResidencyScan>(
        ResidencyScan::Parts{&backend_, &evictor_, &files_, services_.get(), &own_cache_},
        8 * kMiB);
    intake_ =
        std::make_unique<EventIntake>(EventIntake::Parts{.backend = &backend_,
                                                         .loader = loader_.get(),
                                                         .host = host_.get(),
                                                         .lists = lists_.get(),
                                                         .residency_scan = residency_scan_.get(),
                                                         .files = &files_,
                                                         .services = services_.get(),
                                                         .demand = &demand_,
                                                         .own_cache = &own_cache_,
                                                         .control = &control_,
                                                         .lookups = &lookups_},
                                      EventIntake::Options{});
  }
  void Progress(int count = 1, uint64_t file = 1) {
    for (int i = 0; i < count; ++i) {
      backend_.Push(ProgressEvent(file, static_cast<uint64_t>(i) * kPageBytes));
    }
    Drain();
  }
  void Drain() {
    while (intake_->DrainBatch() > 0) {
    }
  }
  // A service of everybody, and one with a group and its process 98.
  void StartTwo() {
    tree_.Write("/sys/fs/cgroup/one/memory.current", "10\n");
    tree_.Write("/proc/98/cgroup", "0::/one\n");
    ASSERT_TRUE(services_->Start({{"service_id", "a"}}).ok());
    ASSERT_TRUE(services_->Start({{"service_id", "b"}, {"cgroup", "/one"}}).ok());
  }
  // The services of readers are looked up by another thread from now on.
  void LookReadersUp() {
    services_->Use(
        nullptr,
        [this](std::function<void()> work, std::function<void()> done) {
          return lookups_.Submit(std::move(work), std::move(done)).ok();
        },
        [this] { intake_->NoteAnswer(); });
  }
  // As the executor: once for all that have been answered.
  void Turn(JobQueue* queue) {
    queue->RunDone();
    intake_->ReleaseAnswered();
  }
  static void Fill(JobQueue* queue) {
    while (queue->Submit(nullptr, nullptr)) {
    }
  }

  JobQueue control_{"control", /*manual=*/true};
  JobQueue lookups_{"readers", /*manual=*/true};
  DemandMeter demand_;
  std::atomic<uint64_t> own_cache_{0};
  std::unique_ptr<ResidencyScan> residency_scan_;
  std::unique_ptr<EventIntake> intake_;
  std::vector<miss_io> seen_;
  std::vector<miss_io> missed_;
  int answers_ = 0;
  const std::function<void()> answer_ = [this] { ++answers_; };
};

TEST_F(EventIntakeTest, AnEventWaitsUntilItsFileIsKnown) {
  Progress(2);
  EXPECT_TRUE(seen_.empty());
  EXPECT_EQ(control_.Pending(), 1u) << "it is looked up once";
  EXPECT_EQ(intake_->Stats().held, 2u);
  Turn(&control_);
  ASSERT_EQ(seen_.size(), 2u);
  EXPECT_EQ(seen_[1].offset, kPageBytes);
  Progress();
  EXPECT_EQ(seen_.size(), 3u);
  EXPECT_EQ(intake_->Stats().held, 2u);
  EXPECT_EQ(intake_->Stats().progress, 3u);
}

TEST_F(EventIntakeTest, WhereALookUpIsNotTakenTheNextTurnTriesAgain) {
  Fill(&control_);
  Progress();
  Turn(&control_);
  EXPECT_TRUE(seen_.empty());
  intake_->ReleaseHeld();
  Turn(&control_);
  EXPECT_EQ(seen_.size(), 1u);
}

// Each costs a round trip to another thread.
TEST_F(EventIntakeTest, FilesOfOneProcessAreLookedUpTogether) {
  constexpr uint64_t kFiles = 30000;
  for (uint64_t file = 1; file <= kFiles; ++file) {
    backend_.AddFile(file, "small/" + std::to_string(file), kPageBytes);
    backend_.Push(ProgressEvent(file, 0));
  }
  Drain();
  EXPECT_EQ(control_.Pending(), HeldEvents::kAhead / EventIntake::kFilesPerJob);
  size_t turns = 0;
  for (; seen_.size() < kFiles && turns < kFiles; ++turns) Turn(&control_);
  EXPECT_LE(turns, kFiles / HeldEvents::kAhead + 1);
  EXPECT_EQ(intake_->Stats().unresolved, 0u);
  for (size_t i = 0; i < seen_.size(); ++i) ASSERT_EQ(seen_[i].file, i + 1);
}

TEST_F(EventIntakeTest, AFileThatIsGoneHoldsUpNothingBehindIt) {
  Progress(1, 98);
  Progress(1, 1);
  Progress(1, 99);
  Turn(&control_);
  Turn(&control_);
  EXPECT_EQ(seen_.size(), 1u);
  EXPECT_EQ(intake_->Stats().unresolved, 2u);
}

TEST_F(EventIntakeTest, AMessageDoesNotWaitForAProcessThatHangs) {
  LookReadersUp();
  Progress();
  Turn(&control_);
  backend_.AdvanceClock(2001 * kMs);
  intake_->CatchUp(answer_);
  EXPECT_EQ(answers_, 1);
  EXPECT_TRUE(seen_.empty());
}

// It is asked for its environment, which may name a service, and hangs.
TEST_F(EventIntakeTest, AMessageDoesNotWaitForAProcessThatIsOfNoReaderOfItsService) {
  StartTwo();
  std::function<void()> answer;
  services_->Use(
      nullptr,
      [&](const std::function<void()>& work, std::function<void()> done) {
        work();
        answer = std::move(done);
        return true;
      },
      [this] { intake_->NoteAnswer(); });
  backend_.Push(MissEvent(1, 0, kPageBytes, 98));
  Drain();
  Turn(&control_);
  const auto number = [this](const char* id) {
    return static_cast<int>(services_->Find(id)->number);
  };
  intake_->CatchUp(answer_, number("a"));
  EXPECT_EQ(answers_, 1);
  intake_->CatchUp(answer_, number("b"));
  intake_->CatchUp(answer_);
  EXPECT_EQ(answers_, 1) << "what its own service did comes first";
  answer();
  for (int turn = 0; turn < 4; ++turn) {
    Turn(&control_);
    Turn(&lookups_);
  }
  EXPECT_EQ(answers_, 3);
}

TEST_F(EventIntakeTest, WhereTooManyWaitTheNextSaysThatSomeAreLost) {
  Progress(static_cast<int>(HeldEvents::kMax) + 3);
  EXPECT_EQ(intake_->Stats().held_lost, 3u);
  EXPECT_EQ(backend_.kept_names, HeldEvents::kMax) << "of those that wait, not of the lost";
  Turn(&control_);
  ASSERT_EQ(seen_.size(), HeldEvents::kMax);
  for (size_t i = 0; i < seen_.size(); ++i)
    ASSERT_EQ((seen_[i].flags & PPC_F_LOST) != 0, i == 0) << i;
}

// One process's flood leaves room for the others' events.
TEST_F(EventIntakeTest, WhereTooManyWaitTheProcessThatHoldsMostLosesFirst) {
  HeldEvents held;
  const auto no_ask = [](const Event&) {};
  const auto add = [&](int tgid) { return held.Add(MissEvent(1, 0, 1, tgid), 5, no_ask); };
  for (size_t i = 0; i < HeldEvents::kMax; ++i) ASSERT_FALSE(add(7)) << i;
  EXPECT_EQ(add(7), 7);
  for (size_t i = 0; i < HeldEvents::kShare; ++i) ASSERT_EQ(add(8), 7) << i;
  EXPECT_EQ(add(8), 8) << "it has its share";
  EXPECT_EQ(held.size(), HeldEvents::kMax);
  size_t left[2] = {};
  const auto take = [&](const Event& event, const Arrival&) { return ++left[event.tgid - 7] > 0; };
  held.Release(6, take, no_ask);
  EXPECT_EQ(left[0], HeldEvents::kMax - HeldEvents::kShare);
  EXPECT_EQ(left[1], HeldEvents::kShare);
  EXPECT_TRUE(held.empty());
}

// A policy that hears of another process's loss would take its own recording for one with holes.
TEST_F(EventIntakeTest, OnlyTheProcessThatLostEventsSaysSo) {
  for (int i = 0; i < static_cast<int>(HeldEvents::kMax) + 3; ++i)
    backend_.Push(MissEvent(1, 0, kPageBytes, 7 + i % 2));
  for (int i = 0; i < 3; ++i) backend_.Push(MissEvent(1, 0, kPageBytes, 9));
  Drain();
  ASSERT_GT(intake_->Stats().held_lost, 0u);
  Turn(&control_);
  std::map<int, int> told;
  for (const miss_io& miss : missed_) told[miss.pid] += (miss.flags & PPC_F_LOST) != 0 ? 1 : 0;
  EXPECT_EQ(told[9], 0);
  EXPECT_EQ(told[7] + told[8], 2);
}

TEST_F(EventIntakeTest, EachServiceIsToldOnceOfALossThatMayBeItsOwn) {
  StartTwo();
  const auto event = [&](int tgid, uint8_t flags) {
    backend_.Push(ProgressEvent(1, 0, tgid, flags));
    Drain();
    Turn(&control_);
    return (seen_.back().flags & PPC_F_LOST) != 0;
  };
  EXPECT_FALSE(event(50, 0));
  backend_.AdvanceClock(kNsPerSec);
  EXPECT_TRUE(event(50, kEventLost)) << "of the one whose event says so";
  EXPECT_TRUE(event(98, 0)) << "and of the other";
  EXPECT_FALSE(event(98, 0));
  EXPECT_FALSE(event(50, 0));
  backend_.AdvanceClock(kNsPerSec);
  ASSERT_TRUE(services_->Start({{"service_id", "b"}, {"cgroup", "/one"}}).ok());
  EXPECT_FALSE(event(98, 0)) << "it began after the loss";
}

class LostBeforeTest : public EventIntakeTest {
 protected:
  LostBeforeTest() {
    tree_.WriteStat(50);
    backend_.AddFile(2, "model/b", kMiB);
    backend_.AdvanceClock(kNsPerSec);
  }
  void Come(int tgid, uint8_t flags = 0, uint64_t file = 1) {
    backend_.Push(ProgressEvent(file, 0, tgid, flags));
    Drain();
  }
  // Installs it; its reader's events have waited until then.
  void Begin(const Json& message) {
    backend_.AdvanceClock(100 * kMs);
    ASSERT_TRUE(services_->Start(message).ok());
    Turn(&control_);
  }
  std::vector<bool> SaidLost(int tgid) const {
    std::vector<bool> said;
    for (const miss_io& event : seen_) {
      if (event.pid == tgid) said.push_back((event.flags & PPC_F_LOST) != 0);
    }
    return said;
  }
};

const Json kAutomatic = {{"service_id", "a"}, {"pid", 50}, {"auto", true}};

TEST_F(LostBeforeTest, AnAutomaticServiceIsToldWhereTheLossWas) {
  Come(50);
  Come(50);
  backend_.AdvanceClock(100 * kMs);
  Come(60, kEventLost);
  Come(50);
  Come(50);
  Begin(kAutomatic);
  EXPECT_EQ(SaidLost(50), (std::vector<bool>{false, false, true, false}));
}

class LossBeforeItTest : public LostBeforeTest, public testing::WithParamInterface<uint64_t> {};

// Right before its first event it may be its own, long before it does not concern it.
TEST_P(LossBeforeItTest, ConcernsItForTwoSeconds) {
  Come(60, kEventLost);
  backend_.AdvanceClock(GetParam() * kMs);
  Come(50);
  Begin(kAutomatic);
  Come(50);
  EXPECT_EQ(SaidLost(50), (std::vector<bool>{GetParam() <= 2000, false}));
}
INSTANTIATE_TEST_SUITE_P(Ms, LossBeforeItTest, testing::Values(1000, 2001));

TEST_F(LostBeforeTest, AnotherStartOfAnOpenServiceIsTold) {
  StartTwo();
  Come(98);
  Turn(&control_);
  backend_.AdvanceClock(100 * kMs);
  Come(50, 0, 2);  // waits for its file
  Come(98, kEventLost);
  Come(50);
  Begin({{"service_id", "a"}});
  EXPECT_EQ(SaidLost(50), (std::vector<bool>{false, true}));
}

TEST_F(LostBeforeTest, AProcessThatLostSomeOfItsOwnSaysSoAfterALossOfOthers) {
  Come(60, 0, 2);
  Turn(&control_);  // what it does next waits for nothing
  Come(50);
  for (size_t i = 0; i < HeldEvents::kMax; ++i) backend_.Push(MissEvent(1, 0, kPageBytes, 50));
  Drain();
  ASSERT_GT(intake_->Stats().held_lost, 0u);
  Come(60, kEventLost, 2);
  Begin(kAutomatic);
  EXPECT_EQ(SaidLost(50), (std::vector<bool>{true}));
}

TEST_F(EventIntakeTest, AMessageIsNextWhereNothingWaits) {
  intake_->CatchUp(answer_);
  EXPECT_EQ(answers_, 1);
}

TEST_F(EventIntakeTest, AMessageComesAfterTheEventsBeforeIt) {
  LookReadersUp();
  Progress();
  size_t seen_before = 0;
  intake_->CatchUp([&] {
    seen_before = seen_.size();
    ++answers_;
  });
  for (int turn = 0; answers_ == 0; ++turn) {
    ASSERT_LT(turn, 8);
    Turn(&control_);
    Turn(&lookups_);
  }
  EXPECT_EQ(seen_before, 1u);
}

TEST_F(EventIntakeTest, AMessageWaitsForTwoSecondsAtMostAndIsAnsweredOnce) {
  LookReadersUp();
  Progress();
  const uint64_t start = backend_.NowNs();
  intake_->CatchUp(answer_);
  Turn(&control_);
  intake_->ExpirePendingMessages(start + 1999 * kMs);
  EXPECT_EQ(answers_, 0);
  intake_->ExpirePendingMessages(start + 2000 * kMs);
  EXPECT_EQ(answers_, 1);
  for (int turn = 0; turn < 4; ++turn) {
    Turn(&control_);
    Turn(&lookups_);
    intake_->ExpirePendingMessages(start + 5000 * kMs);
  }
  EXPECT_EQ(answers_, 1);
  EXPECT_EQ(seen_.size(), 1u);
}

TEST_F(EventIntakeTest, AMessageDoesNotWaitBehindAFullQueue) {
  Progress();
  Fill(&control_);
  intake_->CatchUp(answer_);
  EXPECT_TRUE(seen_.empty());
  EXPECT_EQ(answers_, 1);
  Turn(&control_);
  EXPECT_EQ(seen_.size(), 1u);
  // Nor behind one of readers, longer than until the next tick.
  Progress(1, 99);
  Fill(&lookups_);
  intake_->CatchUp(answer_);
  Turn(&control_);
  intake_->ExpirePendingMessages(backend_.NowNs());
  EXPECT_EQ(answers_, 2);
}

TEST_F(EventIntakeTest, EventsWithoutEndKeepNoMessage) {
  backend_.flood = MissEvent(1, 0, kPageBytes, getpid());
  intake_->CatchUp(answer_);
  EXPECT_EQ(answers_, 1);
  EXPECT_EQ(intake_->Stats().events, 256 * EventIntake::kBatch);
  EXPECT_EQ(intake_->Stats().own_events, intake_->Stats().events);
}

}  // namespace
}  // namespace ppc
