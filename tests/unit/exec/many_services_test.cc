// SPDX-License-Identifier: Apache-2.0
// What one service costs must not grow with the number of the others.
#include <string>
#include <utility>

#include "tests/unit/exec/executor_fixture.h"

namespace ppc {
namespace {

constexpr int kServices = 50;

class CountedMemory : public MemorySource {
 public:
  explicit CountedMemory(MemorySource* source) : source_(source) {}
  MemoryReading Read(bool with_cache) override {
    ++reads;
    return source_->Read(with_cache);
  }
  int reads = 0;

 private:
  MemorySource* const source_;
};

class ManyServicesTest : public ExecutorTest {
 protected:
  ManyServicesTest() {
    policy_.control = [](const std::string&) { return std::string("{}"); };
    policy_.tick = [](uint64_t) {};  // a turn is a fifth of a second then
    policy_.plan = [this](const ppc_plan_request& request) {
      if (request.service != loads_) return;
      policy_.list = {{.file = 1, .offset = 0, .size = 8 * kMiB}};
      loads_ = kNone;
    };
  }
  void StartMany() {
    RuntimeConfig config;
    config.memory = [this](const std::shared_ptr<const Cgroup>&) {
      return std::shared_ptr<MemorySource>(&memory_, [](MemorySource*) {});
    };
    config.options.guard = false;  // which reads them in its own time
    Start(std::move(config));
    for (int i = 0; i < kServices; ++i) StartOne(i);
    Turn();
  }
  void StartOne(int number) {
    const std::string id = "service-" + std::to_string(number);
    ASSERT_TRUE(runtime_->Control({{"op", "service_start"}, {"service_id", id}}).ok());
  }
  CountedMemory memory_{&backend_};
  static constexpr uint32_t kNone = UINT32_MAX;
  uint32_t loads_ = kNone;  // the service for which the policy plans once
};

TEST_F(ManyServicesTest, AStartReadsTheMemoryOfNoOtherService) {
  StartMany();
  memory_.reads = 0;
  StartOne(kServices);
  Turn(2);
  EXPECT_GE(memory_.reads, 1);
  EXPECT_LE(memory_.reads, 10);
}

TEST_F(ManyServicesTest, WhatThePolicyDoesBesideReadsTheMemoryOfNoIdleService) {
  StartMany();
  memory_.reads = 0;
  ASSERT_TRUE(runtime_->Control({{"op", "its_own"}}).ok());
  Turn(2);
  EXPECT_LE(memory_.reads, 10);
}

TEST_F(ManyServicesTest, AnIdleServiceForWhichThePolicyHasSomethingIsLoaded) {
  StartMany();
  loads_ = 7;
  ASSERT_TRUE(runtime_->Control({{"op", "its_own"}}).ok());
  Turn(2);
  EXPECT_EQ(backend_.Resident(1, 0, 0, {})->resident, 8 * kMiB);
}

}  // namespace
}  // namespace ppc
