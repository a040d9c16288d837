// SPDX-License-Identifier: Apache-2.0
// kvtier through its hook table.
#include <gtest/gtest.h>

#include "tests/policy/model.h"

namespace ppc::test {
namespace {

constexpr uint64_t kObjectBytes = 64 << 10;

class KvTierTest : public ::testing::Test {
 protected:
  KvTierTest() {
    host_.memory.limit = host_.memory.threshold = 1 << 30;
    for (int i = 0; i < 100; i++)
      files_.push_back(host_.AddFile("chunk" + std::to_string(i * 37 % 100), kObjectBytes));
  }
  void Start(const nlohmann::json& config = nlohmann::json::object()) {
    host_.SetConfig(config);
    ASSERT_EQ(ops().ppc_init(host_.context()), 0);
  }
  ppc_operation& ops() { return *library_.ops(); }
  void Miss(uint64_t file, int service = -1, uint64_t offset = 0) {
    host_.now_ns += 1'000'000;
    miss_io miss = host_.Event(PPC_MISS_READ, file, offset, kObjectBytes);
    miss.service = service;
    EXPECT_EQ(ops().ppc_prefetch(&miss), nullptr);
  }
  prefetch_ios* Plan(uint32_t service = 0) {
    const ppc_plan_request request = {
        .max_bytes = 64 << 20, .memory = &host_.memory, .service = service};
    return ops().ppc_plan(&request);
  }
  uint64_t Stat(const char* name) {
    ops().ppc_tick(host_.now_ns);
    return host_.stats[name];
  }
  FakeHost host_;
  PolicyLibrary library_{PolicyPath("kvtier")};
  std::vector<uint64_t> files_;
};

TEST_F(KvTierTest, WantsPositionsAndLeavesReadAheadToTheKernel) {
  Start({{"block", "256K"}});
  EXPECT_EQ(host_.want, PPC_WANT_PROGRESS);
  EXPECT_EQ(host_.beacon_bytes, 256u << 10);
}

TEST_F(KvTierTest, LoadsTheNextFileOfAChainForTheReadersService) {
  Start();
  ops().ppc_control(R"({"op": "service_start", "service_id": "a", "service": 1})");
  for (const uint64_t file : files_) Miss(file, 1);
  EXPECT_EQ(Plan(1), nullptr);
  host_.now_ns += 10'000'000'000;
  ops().ppc_tick(host_.now_ns);
  Miss(files_[0], 1);
  EXPECT_EQ(Plan(0), nullptr);
  const prefetch_ios* const list = Plan(1);
  ASSERT_NE(list, nullptr);
  ASSERT_EQ(list->nr, 18u);  // 1 MiB and a little of the read
  for (size_t i = 0; i < list->nr; i++) {
    EXPECT_EQ(list->ios[i].file, files_[i + 1]);
    EXPECT_EQ(list->ios[i].offset, 0u);
    EXPECT_EQ(list->ios[i].size, kObjectBytes);
    EXPECT_EQ(list->ios[i].service, 1u);
  }
}

TEST_F(KvTierTest, StrangersTeachNothing) {
  Start();
  ops().ppc_control(R"({"op": "service_start", "service_id": "a", "service": 1})");
  for (const uint64_t file : files_) Miss(file, -1);
  EXPECT_EQ(Stat("objects"), 0u);
  ops().ppc_control(R"({"op": "service_stop", "service_id": "a"})");
  Miss(files_[0], -1);
  EXPECT_EQ(Stat("objects"), 1u);
}

TEST_F(KvTierTest, BlocksOfALargeFileAreObjects) {
  Start({{"block", "64K"}});
  const uint64_t large = host_.AddFile("large", 64 << 20);
  std::vector<uint64_t> offsets;
  for (uint64_t i = 0; i < 100; i++) offsets.push_back(i * 523 % 1024 * kObjectBytes);
  for (const uint64_t offset : offsets) Miss(large, -1, offset);
  EXPECT_EQ(Stat("objects"), 100u);
  host_.now_ns += 10'000'000'000;
  ops().ppc_tick(host_.now_ns);
  Miss(large, -1, offsets[0]);
  const prefetch_ios* const list = Plan();
  ASSERT_NE(list, nullptr);
  EXPECT_EQ(list->ios[0].offset, offsets[1]);
  EXPECT_EQ(list->ios[0].size, kObjectBytes);
}

TEST_F(KvTierTest, DropsTheColdestWhenMemoryIsShort) {
  Start();
  for (int i = 0; i < 3; i++) {
    for (size_t f = 0; f < 50; f++) Miss(files_[f]);
  }
  for (size_t f = 50; f < 100; f++) Miss(files_[f]);
  host_.memory.threshold = 100 << 20;
  host_.memory.used = host_.memory.cache = 50 << 20;
  EXPECT_EQ(ops().ppc_evict(nullptr), nullptr);
  // 3 MiB exceed the threshold, so room is made: all 50 objects that were read once.
  host_.memory.used = host_.memory.cache = (100 << 20) - (16 << 20) + 50 * kObjectBytes;
  host_.memory.threshold = host_.memory.used - 1;
  host_.memory.cache = 50 * kObjectBytes;
  const evict_ios* const list = ops().ppc_evict(nullptr);
  ASSERT_NE(list, nullptr);
  ASSERT_EQ(list->nr, 50u);
  for (uint32_t i = 0; i < list->nr; i++)
    EXPECT_TRUE(std::find(files_.begin() + 50, files_.end(), list->ios[i].file) != files_.end());
  EXPECT_EQ(Stat("dropped_bytes"), 50 * kObjectBytes);
}

TEST_F(KvTierTest, RefusesNonsenseInOneLine) {
  host_.SetConfig({{"block", "3M"}});
  EXPECT_NE(ops().ppc_init(host_.context()), 0);
  ASSERT_EQ(host_.log.size(), 1u);
  EXPECT_NE(host_.log[0].find("\"block\""), std::string::npos);
}

TEST_F(KvTierTest, AnswersWithItsStatistics) {
  Start();
  Miss(files_[0]);
  const nlohmann::json reply = nlohmann::json::parse(ops().ppc_control(R"({"op": "status"})"));
  EXPECT_EQ(reply["objects"], 1);
  EXPECT_EQ(ops().ppc_control(R"({"op": "dance"})"), nullptr);
  EXPECT_EQ(ops().ppc_control("nonsense"), nullptr);
}

}  // namespace
}  // namespace ppc::test
