// SPDX-License-Identifier: Apache-2.0
// The workers are turned by hand: a look-up is over when a test says so.
#include "daemon/exec/event_intake.h"

#include <unistd.h>

#include "tests/unit/exec/parts_fixture.h"

namespace ppc {
namespace {

class EventIntakeTest : public PartsTest {
 protected:
  EventIntakeTest() {
    policy_.event = [this](const miss_io& event) { seen_.push_back(event); };
    MakeLists();
    look_ = std::make_unique<CacheLook>(
        CacheLook::Parts{&backend_, &evictor_, &files_, services_.get(), &own_cache_}, 8 * kMiB);
    intake_ = std::make_unique<EventIntake>(EventIntake::Parts{.backend = &backend_,
                                                               .loader = loader_.get(),
                                                               .host = host_.get(),
                                                               .lists = lists_.get(),
                                                               .look = look_.get(),
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
      Event event = MissEvent(file, static_cast<uint64_t>(i) * kPageBytes, kPageBytes);
      event.kind = EventKind::kProgress;
      backend_.Push(event);
    }
    while (intake_->DrainBatch() > 0) {
    }
  }
  // Whose the readers are is asked elsewhere from now on.
  void LookReadersUp() {
    services_->Use(
        nullptr,
        [this](std::function<void()> work, std::function<void()> done) {
          return lookups_.Submit(std::move(work), std::move(done)).ok();
        },
        [this] { intake_->ReleaseHeld(); });
  }
  static void Fill(Worker* worker) {
    while (worker->Submit(nullptr, nullptr)) {
    }
  }

  Worker control_{"control", /*manual=*/true};
  Worker lookups_{"readers", /*manual=*/true};
  DemandMeter demand_;
  std::atomic<uint64_t> own_cache_{0};
  std::unique_ptr<CacheLook> look_;
  std::unique_ptr<EventIntake> intake_;
  std::vector<miss_io> seen_;
  int answers_ = 0;
  const std::function<void()> answer_ = [this] { ++answers_; };
};

TEST_F(EventIntakeTest, AnEventWaitsUntilItsFileIsKnown) {
  Progress(2);
  EXPECT_TRUE(seen_.empty());
  EXPECT_EQ(intake_->Stats().held, 2u);
  control_.RunDone();
  ASSERT_EQ(seen_.size(), 2u);
  EXPECT_EQ(seen_[1].offset, kPageBytes);
  Progress();
  EXPECT_EQ(seen_.size(), 3u);
  EXPECT_EQ(intake_->Stats().held, 2u);
  EXPECT_EQ(intake_->Stats().progress, 3u);
}

TEST_F(EventIntakeTest, AnUnknownFileIsLookedUpOnce) {
  Progress(8);
  EXPECT_EQ(control_.Pending(), 1u);
}

TEST_F(EventIntakeTest, WhereALookUpIsNotTakenTheNextTurnTriesAgain) {
  Fill(&control_);
  Progress();
  control_.RunDone();
  EXPECT_TRUE(seen_.empty());
  intake_->ReleaseHeld();
  control_.RunDone();
  EXPECT_EQ(seen_.size(), 1u);
}

TEST_F(EventIntakeTest, WhereTooManyWaitTheNextSaysThatSomeAreLost) {
  Progress(static_cast<int>(HeldEvents::kMax) + 3);
  EXPECT_EQ(intake_->Stats().held_lost, 3u);
  control_.RunDone();
  ASSERT_EQ(seen_.size(), HeldEvents::kMax);
  for (size_t i = 0; i < seen_.size(); ++i)
    ASSERT_EQ((seen_[i].flags & PPC_F_LOST) != 0, i == 0) << i;
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
    control_.RunDone();
    lookups_.RunDone();
  }
  EXPECT_EQ(seen_before, 1u);
}

TEST_F(EventIntakeTest, AMessageWaitsForTwoSecondsAtMostAndIsAnsweredOnce) {
  LookReadersUp();
  Progress();
  const uint64_t start = backend_.NowNs();
  intake_->CatchUp(answer_);
  control_.RunDone();
  intake_->SettleLate(start + 1999 * kMs);
  EXPECT_EQ(answers_, 0);
  intake_->SettleLate(start + 2000 * kMs);
  EXPECT_EQ(answers_, 1);
  for (int turn = 0; turn < 4; ++turn) {
    control_.RunDone();
    lookups_.RunDone();
    intake_->SettleLate(start + 5000 * kMs);
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
  control_.RunDone();
  EXPECT_EQ(seen_.size(), 1u);
  // Nor behind one of readers, longer than until the next tick.
  Progress(1, 99);
  Fill(&lookups_);
  intake_->CatchUp(answer_);
  control_.RunDone();
  intake_->SettleLate(backend_.NowNs());
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
