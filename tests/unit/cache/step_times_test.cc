// SPDX-License-Identifier: Apache-2.0
#include "daemon/cache/step_times.h"

#include <algorithm>
#include <array>
#include <functional>
#include <map>
#include <memory>
#include <vector>

#include "daemon/cache/load_scheduler.h"
#include "tests/unit/cache/loader_fixture.h"

namespace ppc {
namespace {

constexpr uint64_t kMs = 1'000'000;
constexpr uint64_t kDiskNs = 5 * kMs;  // of a step
constexpr uint32_t kSteady = 5;
constexpr size_t kLoaders = 8;

struct Clock : ReplayBackend {
  Clock() : ReplayBackend({}) {}
  uint64_t NowNs() const override { return now_ns; }
  uint64_t now_ns = 1'000'000'000;
};

// Loaders in made-up time over one disk, which the loads of the steady service wait for.
class StepTimesTest : public testing::Test {
 protected:
  struct Answer {
    uint64_t took_ns = 0;
    LoadStop stop = LoadStop::kDone;
    bool is_resident = false;
  };
  using Of = std::function<Answer(uint64_t now_ns)>;

  StepTimesTest() {
    for (size_t i = 0; i < kLoaders; ++i) loaders_[i].thread.index = i;
  }
  void Queue(uint32_t service) {
    auto payer = std::make_shared<Payer>(Payer{.service = service, .serial = service});
    std::vector<LoadItem> items(
        1, LoadItem{.file = 1, .size = uint64_t{1} << 40, .payer = std::move(payer)});
    scheduler_.Submit(items, /*replaces=*/false);
  }
  // Steps of each service that have come back since then.
  std::map<uint32_t, int> Run(uint64_t ns, const Of& other) {
    steps_.clear();
    const uint64_t end = clock_.now_ns + ns;
    for (;;) {
      const auto next = std::ranges::min_element(loaders_, {}, &Loader::due_ns);
      if (next->due_ns >= end) break;
      clock_.now_ns = std::max(clock_.now_ns, next->due_ns);
      if (next->thread.chunk) EndStep(&*next);
      BeginStep(&*next, other);
    }
    clock_.now_ns = end;
    return steps_;
  }

 private:
  struct Loader {
    LoaderThread thread;
    uint64_t due_ns = 0;
    uint64_t begun_ns = 0;
    Answer answer;
    bool tells_device = false;
  };
  void EndStep(Loader* loader) {
    LoadChunk* const chunk = &*loader->thread.chunk;
    const uint64_t step = chunk->NextStep();
    const bool is_done = loader->answer.stop == LoadStop::kDone;
    const uint64_t done = is_done ? step : 0;
    const uint64_t loaded = loader->answer.is_resident ? 0 : done;
    const LoadResult result{
        .loaded = loaded, .resident = done - loaded, .done = done, .stop = loader->answer.stop};
    const uint64_t took = clock_.now_ns - loader->begun_ns;
    steps_[ServiceOf(chunk->Rest().payer)] += is_done ? 1 : 0;
    if (loader->tells_device) scheduler_.EndStep(clock_.now_ns, loaded, took);
    scheduler_.Account(chunk->Rest(), clock_.now_ns, result, took);
    Interruption reason = chunk->EndStep(result, step);
    if (reason == Interruption::kNone) reason = scheduler_.Check(loader->thread);
    if (reason != Interruption::kNone || chunk->IsOver())
      scheduler_.Finish(&loader->thread, reason);
  }
  void BeginStep(Loader* loader, const Of& other) {
    loader->due_ns = clock_.now_ns + kMs;
    if (!loader->thread.chunk && !scheduler_.Take(&loader->thread)) return;
    const LoadItem& item = loader->thread.chunk->Rest();
    loader->begun_ns = clock_.now_ns;
    if (ServiceOf(item.payer) == kSteady) {
      disk_free_ns_ = std::max(disk_free_ns_, clock_.now_ns) + kDiskNs;
      loader->answer = {disk_free_ns_ - clock_.now_ns};
    } else {
      loader->answer = other(clock_.now_ns);
    }
    loader->due_ns = clock_.now_ns + loader->answer.took_ns;
    loader->tells_device = scheduler_.BeginStep(item, clock_.now_ns);
    late_steps_ += loader->tells_device ? 0 : 1;
  }

  Clock clock_;
  LoaderLayout layout_{Nodes(1), kLoaders, 1};
  Completions completions_;
  std::array<Loader, kLoaders> loaders_;
  uint64_t disk_free_ns_ = 0;
  std::map<uint32_t, int> steps_;

 protected:
  LoadScheduler scheduler_{&clock_, &layout_, {.manual = true}, &completions_, [] { return 0; }};
  int late_steps_ = 0;  // begun while their service was late
};

constexpr int kAlone = 10'000 / 5;  // steps of the disk in ten seconds

// One whose cgroup is throttled answers always, and late.
TEST_F(StepTimesTest, AServiceThatAnswersLateDoesNotSlowTheOthersDown) {
  const Of late = [](uint64_t) { return Answer{1500 * kMs}; };
  for (uint32_t service = 6; service < 14; ++service) Queue(service);
  Queue(kSteady);
  Run(10'000 * kMs, late);
  const auto steps = Run(10'000 * kMs, late);
  EXPECT_GE(steps.at(kSteady), kAlone * 95 / 100);
  EXPECT_GT(steps.rbegin()->second, 0) << "they go on";
  EXPECT_NEAR(static_cast<double>(scheduler_.Device().bytes_per_s), kStepBytes * 1e9 / kDiskNs,
              1e7);
}

TEST_F(StepTimesTest, AServiceThatIsFrozenDoesNotSlowTheOthersDown) {
  // Its loads hang for two seconds, are then refused for one, and so on.
  uint64_t begun = 0;
  const Of frozen = [&](uint64_t now) {
    if (now >= begun + 3000 * kMs) begun = now;
    const bool hangs = now < begun + 2000 * kMs;
    return Answer{hangs ? 2000 * kMs : 0, LoadStop::kLater};
  };
  Queue(kSteady);
  Queue(6);
  EXPECT_GE(Run(10'000 * kMs, frozen).at(kSteady), kAlone * 75 / 100) << "it hangs once";
  EXPECT_GE(Run(10'000 * kMs, frozen).at(kSteady), kAlone * 99 / 100);
}

TEST_F(StepTimesTest, AServiceThatAnswersInTimeAgainGetsItsShare) {
  Queue(kSteady);
  Queue(6);
  Run(10'000 * kMs, [](uint64_t) { return Answer{1500 * kMs}; });
  const Of swift = [](uint64_t) { return Answer{10 * kMs}; };
  Run(3'000 * kMs, swift);
  const auto steps = Run(10'000 * kMs, swift);
  EXPECT_NEAR(steps.at(6), steps.at(kSteady), kAlone / 20);
}

// The steady one has loaded all that it wants.
TEST_F(StepTimesTest, ALateServiceThatIsAloneHasAllLoaders) {
  const Of late = [](uint64_t) { return Answer{1500 * kMs}; };
  Queue(kSteady);
  Queue(6);
  Run(10'000 * kMs, late);
  scheduler_.EndService(kSteady);
  Run(5'000 * kMs, late);
  EXPECT_GE(Run(15'000 * kMs, late).at(6), 10 * static_cast<int>(kLoaders) - 4);
}

// Two CPUs under three endless loops: a step needs a CPU for a moment, and may wait for one for
// half a second.  The disk has 100 ms and 300 MB/s, and all loaders queue there; what a third
// service asks for is in memory.
TEST_F(StepTimesTest, NoServiceOnABusyMachineIsLate) {
  uint64_t free_ns = 0;
  int turn = 0;
  const Of busy = [&](uint64_t now) {
    const bool is_resident = ++turn % 3 == 0;
    const uint64_t stall = turn % 7 == 0 ? 500 * kMs : 20 * kMs;
    if (is_resident) return Answer{.took_ns = kMs + stall, .is_resident = true};
    free_ns = std::max(free_ns, now) + 7 * kMs;
    return Answer{free_ns - now + 100 * kMs + stall};
  };
  for (uint32_t service = 6; service < 9; ++service) Queue(service);
  Queue(kSteady);
  Run(60'000 * kMs, busy);
  EXPECT_EQ(late_steps_, 0);
}

// The process that looked waited for a CPU.
TEST_F(StepTimesTest, WhatIsInMemoryAlreadyIsNoAnswer) {
  const Of resident = [](uint64_t) { return Answer{.took_ns = 1500 * kMs, .is_resident = true}; };
  Queue(kSteady);
  Queue(6);
  Run(10'000 * kMs, resident);
  EXPECT_EQ(late_steps_, 0);
}

// A slow disk, say.
TEST_F(StepTimesTest, WhereAllAreSlowNoneIsLate) {
  const Of slow = [](uint64_t) { return Answer{1500 * kMs}; };
  Queue(6);
  Queue(7);
  const auto steps = Run(15'000 * kMs, slow);
  EXPECT_NEAR(steps.at(6), 10 * kLoaders / 2, 8);
  EXPECT_NEAR(steps.at(7), 10 * kLoaders / 2, 8);
}

}  // namespace
}  // namespace ppc
