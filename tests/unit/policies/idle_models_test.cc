// SPDX-License-Identifier: Apache-2.0
// Models that are read by turns in less memory than all of them need.
#include "policies/maio/idle_models.h"

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "policies/maio/base/tuning.h"
#include "tests/unit/units.h"

namespace ppc::maio {
namespace {

constexpr uint64_t kFileBytes = 64 * kMiB;
constexpr uint64_t kSecond = 1'000'000'000;

class IdleModelsTest : public ::testing::Test {
 protected:
  IdleModelsTest() {
    context_.host = this;
    context_.now_ns = [](const ppc_context* c) { return Of(c)->now_ns_; };
    context_.memory = [](const ppc_context* c, uint32_t, ppc_memory* out) {
      *out = Of(c)->memory_;
      return 0;
    };
    memory_.limit = 120 * kMiB;
    memory_.threshold = 100 * kMiB;
    memory_.is_cgroup = 1;
  }
  static IdleModelsTest* Of(const ppc_context* context) {
    return static_cast<IdleModelsTest*>(context->host);
  }
  // All of a file.
  void Miss(const std::string& path, uint64_t file, uint64_t bytes = kFileBytes) {
    for (uint64_t at = 0; at < bytes; at += kMiB) {
      miss_io event = {};
      event.path = path.c_str();
      event.file = file;
      event.file_bytes = kFileBytes;
      event.offset = at;
      event.size = kMiB;
      event.kind = PPC_MISS_READ;
      event.service = 3;
      event.time_ns = now_ns_;
      models_.Note(event);
    }
  }
  std::vector<ppc_io> Drops(bool is_loading = false, const Evictor::Held& held = NoneHeld) {
    IoList list;
    memory_.cache = memory_.used;
    models_.Evict(held, is_loading, &list);
    return list.ios();
  }
  static bool NoneHeld(uint64_t, uint64_t, uint64_t) { return false; }

  ppc_context context_ = {};
  ppc_memory memory_ = {};
  uint64_t now_ns_ = kSecond;
  IdleModels models_{&context_};
};

TEST_F(IdleModelsTest, TheEndOfTheModelReadLongestAgoGoes) {
  memory_.limit = 240 * kMiB;
  memory_.threshold = 200 * kMiB;
  for (const auto& [path, file] :
       {std::pair("a-00001-of-00002.gguf", 1), {"a-00002-of-00002.gguf", 2}, {"b.gguf", 3}}) {
    Miss(path, static_cast<uint64_t>(file));
    memory_.used = memory_.limit;
    EXPECT_TRUE(Drops().empty()) << "all that was read fits";
    now_ns_ += kRestNs;
  }
  Miss("c.gguf", 4, kMiB);
  memory_.used = memory_.limit - EvictStep(memory_);
  const std::vector<ppc_io> drops = Drops();
  ASSERT_EQ(drops.size(), 1u);
  EXPECT_EQ(drops[0].file, 2u);
  EXPECT_EQ(drops[0].offset, kFileBytes - kChunkBytes);
  EXPECT_EQ(drops[0].flags, 0u) << "what is mapped may be computed from";
  EXPECT_EQ(drops[0].service, 3u);
  EXPECT_TRUE(models_.WantsHits());
  EXPECT_TRUE(Drops().empty()) << "nothing was read since";
}

TEST_F(IdleModelsTest, WhatIsInUseStays) {
  Miss("a.gguf", 1);
  Miss("b.gguf", 2);
  memory_.used = memory_.limit;
  EXPECT_TRUE(Drops().empty()) << "both are read";
  now_ns_ += kRestNs;
  Miss("b.gguf", 2, kMiB);
  const std::vector<ppc_io> drops = Drops();
  ASSERT_FALSE(drops.empty());
  for (const ppc_io& io : drops) EXPECT_EQ(io.file, 1u);
  // It is mapped.
  ppc_result result = {};
  result.file = 1;
  result.size = result.mapped = drops[0].size;
  result.cookie = drops[0].cookie;
  EXPECT_TRUE(models_.Done(result));
  Miss("b.gguf", 2, kMiB);
  EXPECT_TRUE(Drops().empty());
}

TEST_F(IdleModelsTest, ALoadHasRoomBelowTheThreshold) {
  memory_.limit = 110 * kMiB;
  Miss("a.gguf", 1);
  EXPECT_TRUE(Drops().empty());
  now_ns_ += kRestNs;
  Miss("b.gguf", 2, kMiB);
  memory_.used = memory_.threshold;
  EXPECT_TRUE(Drops().empty());
  const auto held = [](uint64_t, uint64_t page, uint64_t) { return page >= 32 * kMiBPages; };
  const std::vector<ppc_io> drops = Drops(/*is_loading=*/true, held);
  EXPECT_TRUE(drops.empty()) << "another load awaits it";
  EXPECT_FALSE(Drops(/*is_loading=*/true).empty());
}

}  // namespace
}  // namespace ppc::maio
