// SPDX-License-Identifier: Apache-2.0
#include "daemon/cache/evictor.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <future>
#include <mutex>
#include <vector>

#include "sim/replay/replay_backend.h"
#include "tests/unit/units.h"

namespace ppc {
namespace {

class EvictorTest : public testing::Test {
 protected:
  EvictorTest() { Fill(&backend_); }
  static void Fill(ReplayBackend* backend) {
    backend->AddFile(1, "a", 64 * kMiB);
    (void)backend->Load({.file = 1, .length = 64 * kMiB});
  }
  std::vector<IoResult> Results() {
    std::vector<IoResult> results;
    completions_.Take(&results);
    return results;
  }
  ReplayBackend backend_{{}};
  Completions completions_;
};

TEST_F(EvictorTest, DropsAndTellsTheTruth) {
  uint64_t dropped = 0;
  Evictor evictor(&backend_,
                  {.manual = true, .on_dropped = [&](uint64_t bytes) { dropped += bytes; }},
                  &completions_);
  const EvictItem items[] = {{.file = 1, .offset = kMiB, .size = 40 * kMiB, .cookie = 77}};
  evictor.Submit(items);
  while (evictor.RunOne()) {
  }
  const std::vector<IoResult> results = Results();
  ASSERT_EQ(results.size(), 1u);
  EXPECT_FALSE(results[0].is_load);
  EXPECT_EQ(results[0].ok, 40 * kMiB);
  EXPECT_EQ(results[0].cookie, 77u);
  EXPECT_EQ(dropped, 40 * kMiB);
  EXPECT_EQ(backend_.ResidentBytes(1), 24 * kMiB);
  EXPECT_EQ(evictor.Stats().dropped, 40 * kMiB);
}

TEST_F(EvictorTest, MappedPagesAreNoSuccess) {
  backend_.SetMapped(1, true);
  Evictor evictor(&backend_, {.manual = true}, &completions_);
  const EvictItem items[] = {{.file = 1, .size = 4 * kMiB},
                             {.file = 1, .size = 4 * kMiB, .unmap = true}};
  evictor.Submit(items);
  while (evictor.RunOne()) {
  }
  const std::vector<IoResult> results = Results();
  ASSERT_EQ(results.size(), 2u);
  EXPECT_EQ(results[0].ok, 0u);
  EXPECT_EQ(results[0].mapped, 4 * kMiB);
  EXPECT_EQ(results[1].ok, 4 * kMiB);
}

TEST_F(EvictorTest, AFileThatIsGoneIsAnError) {
  Evictor evictor(&backend_, {.manual = true}, &completions_);
  const EvictItem items[] = {{.file = 99, .size = 4 * kMiB}};
  evictor.Submit(items);
  EXPECT_TRUE(evictor.RunOne());
  EXPECT_EQ(Results()[0].error, ESTALE);
}

TEST_F(EvictorTest, ItsThreadFinishesBeforeItStops) {
  Evictor evictor(&backend_, {}, &completions_);
  const EvictItem items[] = {{.file = 1, .size = 32 * kMiB},
                             {.file = 1, .offset = 32 * kMiB, .size = 32 * kMiB}};
  evictor.Submit(items);
  evictor.Stop(/*abandon=*/false);
  EXPECT_EQ(backend_.ResidentBytes(1), 0u);
  EXPECT_EQ(Results().size(), 2u);
}

// Evictions wait for each other here: with a single thread they would wait in vain.
class MeetingBackend : public ReplayBackend {
 public:
  MeetingBackend() : ReplayBackend({}) {}
  Result<EvictResult> Evict(const EvictRequest& request) override {
    {
      std::unique_lock lock(meeting_);
      ++inside_;
      most_ = std::max(most_, inside_);
      arrived_.notify_all();
      arrived_.wait_for(lock, std::chrono::seconds(10), [this] { return most_ == 2; });
    }
    const Result<EvictResult> result = ReplayBackend::Evict(request);
    const std::lock_guard lock(meeting_);
    --inside_;
    return result;
  }
  int inside() {
    const std::lock_guard lock(meeting_);
    return inside_;
  }
  int most() {
    const std::lock_guard lock(meeting_);
    return most_;
  }

 private:
  std::mutex meeting_;
  std::condition_variable arrived_;
  int inside_ = 0;
  int most_ = 0;
};

TEST_F(EvictorTest, ThreadsEvictSideBySideAndJobsRunAlone) {
  MeetingBackend backend;
  Fill(&backend);
  Evictor evictor(&backend, {.threads = 2}, &completions_);
  std::promise<int> beside;
  const EvictItem items[] = {{.file = 1, .size = 8 * kMiB},
                             {.file = 1, .offset = 8 * kMiB, .size = 8 * kMiB}};
  evictor.Submit(items);
  evictor.Post([&] { beside.set_value(backend.inside()); });
  EXPECT_EQ(beside.get_future().get(), 0);
  evictor.Stop(/*abandon=*/false);
  EXPECT_EQ(backend.most(), 2);
  EXPECT_EQ(Results().size(), 2u);
  EXPECT_EQ(evictor.Stats().dropped, 16 * kMiB);
}

TEST_F(EvictorTest, AFullQueueRefuses) {
  Evictor evictor(&backend_, {.max_items = 1, .manual = true}, &completions_);
  const EvictItem items[] = {{.file = 1, .size = kMiB}, {.file = 1, .size = kMiB}};
  evictor.Submit(items);
  EXPECT_EQ(evictor.Stats().refused, 1u);
}

}  // namespace
}  // namespace ppc
