// SPDX-License-Identifier: Apache-2.0
// Models that one service reads by turns in less memory than all of them need.
#include "policies/maio/idle_models.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "tests/unit/units.h"

namespace ppc::maio {
namespace {

constexpr uint64_t kFileBytes = 128 * kMiB;
constexpr uint64_t kEnd = kFileBytes - kChunkBytes;
constexpr uint32_t kCaps = PPC_CAN_PROGRESS | PPC_CAN_UNMAP;
constexpr uint64_t kA = 1;
constexpr uint64_t kB = 2;
constexpr uint64_t kC = 3;

class IdleModelsTest : public ::testing::Test {
 protected:
  IdleModelsTest() {
    context_.size = sizeof(context_);
    context_.host = this;
    context_.caps = kCaps;
    context_.now_ns = [](const ppc_context* c) { return Of(c)->now_ns_; };
    context_.memory = [](const ppc_context* c, uint32_t, ppc_memory* out) {
      *out = Of(c)->memory_;
      return 0;
    };
    context_.resident = [](const ppc_context* c, uint64_t file, uint64_t, uint64_t size,
                           ppc_residency* out, uint8_t*, size_t) {
      out->resident = file == Of(c)->lost_file_ ? size / 2 : size;
      return 0;
    };
    context_.use_limit = [](const ppc_context* c, uint32_t, int on) {
      Of(c)->uses_limit_ = on != 0;
      return 0;
    };
    memory_.limit = 192 * kMiB;
    memory_.threshold = 160 * kMiB;
    memory_.used = memory_.cache = memory_.limit;
    memory_.is_cgroup = 1;
    Make(ServiceSpec());
  }
  static IdleModelsTest* Of(const ppc_context* context) {
    return static_cast<IdleModelsTest*>(context->host);
  }
  void Make(ServiceSpec spec) {
    run_ = std::make_unique<ServiceRun>(&context_, Config(), std::move(spec), 3);
    models_ = std::make_unique<IdleModels>(run_.get());
  }
  void Read(uint64_t file, uint64_t from, uint64_t to, uint32_t kind = PPC_MISS_READ) {
    const std::string path = "m" + std::to_string(file) + ".gguf";
    for (uint64_t at = from; at < to; at += kMiB) {
      miss_io event = {};
      event.path = path.c_str();
      event.file = file;
      event.file_bytes = kFileBytes;
      event.offset = at;
      event.size = kMiB;
      event.kind = kind;
      event.time_ns = now_ns_;
      models_->Note(event);
    }
  }
  void Turn(uint64_t file, uint32_t kind = PPC_MISS_READ) {
    now_ns_ += kQuietNs;
    Read(file, 0, kFileBytes, kind);
  }
  std::vector<ppc_io> Drops(uint64_t next_load = 0) {
    IoList list;
    const auto held = [this](uint64_t file, uint64_t, uint64_t) { return file == held_file_; };
    is_in_charge_ = models_->MayHaveIdle() && models_->Evict(held, next_load, &list);
    for (const ppc_io& io : list.ios()) EXPECT_TRUE(models_->Owns(io.cookie));
    return list.ios();
  }
  // That was dropped, but for what is mapped.
  void Tell(const ppc_io& io, uint64_t mapped) {
    ppc_result result = {};
    result.kind = PPC_EVICTED;
    result.file = io.file;
    result.size = io.size;
    result.mapped = mapped;
    models_->Done(result);
  }
  // A has been read, B is: the kernel has begun to evict A.
  std::vector<ppc_io> DropsOfIdle() {
    Turn(kA);
    now_ns_ += kQuietNs;
    Read(kB, 0, 64 * kMiB);
    lost_file_ = kA;
    const std::vector<ppc_io> drops = Drops();
    for (const ppc_io& io : drops) Tell(io, /*mapped=*/0);
    return drops;
  }

  ppc_context context_ = {};
  ppc_memory memory_ = {};
  uint64_t now_ns_ = kQuietNs;
  uint64_t lost_file_ = 0;
  uint64_t held_file_ = 0;
  bool uses_limit_ = false;
  bool is_in_charge_ = false;
  std::unique_ptr<ServiceRun> run_;
  std::unique_ptr<IdleModels> models_;
};

TEST_F(IdleModelsTest, TheEndOfTheIdleModelGoes) {
  const std::vector<ppc_io> drops = DropsOfIdle();
  ASSERT_FALSE(drops.empty());
  EXPECT_EQ(drops[0].file, kA);
  EXPECT_EQ(drops[0].offset, kEnd);
  EXPECT_EQ(drops[0].flags, 0u) << "what is mapped may be computed from";
  EXPECT_TRUE(models_->WantsHits());
  EXPECT_TRUE(Drops().empty()) << "nothing was read since";
  EXPECT_TRUE(uses_limit_);
  Turn(kA, PPC_PROGRESS);
  EXPECT_FALSE(models_->WantsHits()) << "it is used again";
  Read(kA, 0, kMiB);
  for (const ppc_io& io : Drops()) EXPECT_EQ(io.file, kB);
}

TEST_F(IdleModelsTest, NothingGoesBeforeTheKernelTakesIt) {
  Turn(kA);
  Turn(kB);
  EXPECT_TRUE(Drops().empty());
  EXPECT_TRUE(is_in_charge_);
  EXPECT_FALSE(models_->WantsHits());
  lost_file_ = kB;
  Read(kB, 0, kMiB);
  EXPECT_TRUE(Drops().empty()) << "it evicts what is read";
}

TEST_F(IdleModelsTest, WhatWasReadALittleBeforeIsNotIdle) {
  Turn(kA);
  now_ns_ += kQuietNs - 1;
  Read(kB, 0, kFileBytes);
  lost_file_ = kA;
  EXPECT_TRUE(Drops().empty());
  EXPECT_FALSE(is_in_charge_);
}

TEST_F(IdleModelsTest, NothingGoesThatFitsOrForWhatDoesNot) {
  memory_.used = 64 * kMiB;
  EXPECT_TRUE(DropsOfIdle().empty());
  EXPECT_TRUE(is_in_charge_);
  memory_.limit = memory_.used = memory_.cache = kFileBytes / 2;
  Read(kB, 64 * kMiB, 65 * kMiB);
  EXPECT_TRUE(Drops().empty());
  EXPECT_FALSE(is_in_charge_);
}

TEST_F(IdleModelsTest, AMachineWithoutALimitIsLeftAlone) {
  memory_.is_cgroup = 0;
  EXPECT_TRUE(DropsOfIdle().empty());
}

TEST_F(IdleModelsTest, WhatIsMappedIsAskedForOnce) {
  for (const ppc_io& io : DropsOfIdle()) Tell(io, io.size);
  Read(kB, 64 * kMiB, kFileBytes);
  EXPECT_TRUE(Drops().empty());
}

TEST_F(IdleModelsTest, WhatAnotherServiceNeedsStays) {
  held_file_ = kA;
  EXPECT_TRUE(DropsOfIdle().empty());
  EXPECT_FALSE(models_->WantsHits());
}

TEST_F(IdleModelsTest, TheModelReadLongestAgoGoesFirst) {
  Turn(kA);
  Turn(kB);
  lost_file_ = kA;
  Turn(kC);
  const std::vector<ppc_io> drops = Drops();
  ASSERT_FALSE(drops.empty());
  EXPECT_EQ(drops[0].file, kA);
}

// It was used without an event, perhaps.
TEST_F(IdleModelsTest, AModelThatTheKernelKeepsIsNotIdle) {
  Turn(kA);
  Turn(kB);
  lost_file_ = kB;
  Turn(kC);
  const std::vector<ppc_io> drops = Drops();
  ASSERT_FALSE(drops.empty());
  EXPECT_EQ(drops[0].file, kB);
}

// What was read last is needed last.
TEST_F(IdleModelsTest, AModelThatComesByTurnsMakesRoomForItself) {
  EXPECT_FALSE(DropsOfIdle().empty());
  Read(kB, 64 * kMiB, kFileBytes);
  EXPECT_FALSE(Drops().empty());
  now_ns_ += kQuietNs;
  Read(kA, 0, 64 * kMiB, PPC_PROGRESS);
  Read(kA, 64 * kMiB, 96 * kMiB);
  const std::vector<ppc_io> drops = Drops();
  ASSERT_FALSE(drops.empty());
  EXPECT_EQ(drops[0].file, kA);
  EXPECT_EQ(drops[0].offset, 64 * kMiB) << "close behind the reader";
}

TEST_F(IdleModelsTest, AModelThatWasReadTwiceInARowDoesNot) {
  EXPECT_FALSE(DropsOfIdle().empty());
  Turn(kA);
  Turn(kA, PPC_PROGRESS);
  Read(kA, kEnd, kFileBytes);
  lost_file_ = kB;
  const std::vector<ppc_io> drops = Drops();
  ASSERT_FALSE(drops.empty());
  EXPECT_EQ(drops[0].file, kB);
}

TEST_F(IdleModelsTest, OnlyALoadOfTheModelThatIsReadHasRoomMade) {
  EXPECT_FALSE(DropsOfIdle().empty());
  memory_.used = memory_.threshold;
  EXPECT_TRUE(Drops(/*next_load=*/kA).empty());
  EXPECT_FALSE(Drops(/*next_load=*/kB).empty());
}

TEST_F(IdleModelsTest, WhereHitsAreNotSeenOrReadersAreSeveralNothingGoes) {
  context_.caps = kCaps | PPC_IS_SAMPLED;
  Make(ServiceSpec());
  EXPECT_TRUE(DropsOfIdle().empty());
  context_.caps = kCaps;
  ServiceSpec spec;
  spec.workers = 2;
  Make(spec);
  EXPECT_TRUE(DropsOfIdle().empty());
}

}  // namespace
}  // namespace ppc::maio
