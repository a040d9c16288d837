// SPDX-License-Identifier: Apache-2.0
#include "daemon/exec/runtime.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cerrno>
#include <future>
#include <string>
#include <utility>

#include "daemon/base/files.h"
#include "tests/unit/exec/executor_fixture.h"
#include "tests/unit/exec/test_policy.h"
#include "tests/unit/has.h"
#include "tests/unit/temp_tree.h"

namespace ppc {
namespace {

class RuntimeTest : public testing::Test {
 protected:
  RuntimeTest() { backend_.AddFile(1, "a", 64 * kMiB, "header"); }
  std::unique_ptr<Runtime> Started(RuntimeConfig config = {}) {
    auto runtime = MakeRuntime(&backend_, policy_, std::move(config));
    EXPECT_TRUE(runtime->Start().ok());
    return runtime;
  }
  ReplayBackend backend_{{}};
  TestPolicy policy_;
};

TEST_F(RuntimeTest, APolicyWithoutHooksKeepsNativeReadahead) {
  auto runtime = Started();
  EXPECT_TRUE(backend_.IsAttached());
  EXPECT_FALSE(backend_.Attached().managed_readahead);
  EXPECT_EQ(backend_.Attached().lease_ms, 2000u);
  EXPECT_EQ(backend_.Attached().label, "test");
  runtime->Shutdown();
  EXPECT_FALSE(backend_.IsAttached());
}

TEST_F(RuntimeTest, OnlyEvictKeepsNativeReadaheadToo) {
  policy_.evict = [](const miss_io*) {};
  auto runtime = Started();
  EXPECT_FALSE(backend_.Attached().managed_readahead);
}

TEST_F(RuntimeTest, PlanManagesReadahead) {
  policy_.plan = [](const ppc_plan_request&) {};
  auto runtime = Started();
  EXPECT_TRUE(backend_.Attached().managed_readahead);
}

TEST_F(RuntimeTest, ARefusingInitLeavesNothingAttached) {
  policy_.init = [](ppc_context*) { return -EACCES; };
  bool exited = false;
  policy_.exit = [&] { exited = true; };
  auto runtime = MakeRuntime(&backend_, policy_);
  EXPECT_FALSE(runtime->Start().ok());
  EXPECT_FALSE(backend_.IsAttached());
  EXPECT_FALSE(exited);
}

TEST_F(RuntimeTest, WantMayChangeAtAnyTime) {
  policy_.Want(PPC_WANT_TRACE | PPC_WANT_OPENCLOSE);
  auto runtime = Started();
  EXPECT_TRUE(backend_.Attached().trace);
  EXPECT_TRUE(backend_.Attached().open_close);
  EXPECT_EQ(policy_.context->want(policy_.context, PPC_WANT_MANAGED_RA, 4 * kMiB), 0);
  EXPECT_FALSE(backend_.Attached().trace);
  EXPECT_TRUE(backend_.Attached().managed_readahead);
  EXPECT_EQ(backend_.Attached().beacon_bytes, 4 * kMiB);
}

TEST_F(RuntimeTest, TheContextAnswers) {
  policy_.Want(0);
  RuntimeConfig config;
  config.topology.nodes = {NumaNode{0, {}}, NumaNode{1, {}}};
  config.topology.xpus.resize(2);
  config.topology.xpus[1].node = 1;
  auto runtime = Started(std::move(config));
  ppc_context* const context = policy_.context;
  ppc_file_info info{};
  EXPECT_EQ(context->file_info(context, "a", &info), 0);
  EXPECT_EQ(info.size, 64 * kMiB);
  EXPECT_EQ(context->file_info(context, "absent", &info), -ENOENT);
  EXPECT_EQ(context->file_info(context, "../a", &info), -EINVAL);
  char path[8];
  EXPECT_EQ(context->file_path(context, 1, path, sizeof(path)), 0);
  EXPECT_STREQ(path, "a");
  EXPECT_EQ(context->file_path(context, 1, path, 1), -ENAMETOOLONG);
  EXPECT_EQ(context->file_path(context, 9, path, sizeof(path)), -ESTALE);
  char bytes[16];
  EXPECT_EQ(context->read(context, "a", 2, bytes, sizeof(bytes)), 4);
  EXPECT_EQ(context->read(context, "/a", 2, bytes, sizeof(bytes)), -EINVAL);
  EXPECT_EQ(context->xpu_node(context, 1), 1);
  EXPECT_EQ(context->xpu_node(context, 2), -1);
  (void)backend_.Load({.file = 1, .length = kMiB});
  ppc_residency residency{};
  EXPECT_EQ(context->resident(context, 1, 0, 0, &residency, nullptr, 0), 0);
  EXPECT_EQ(residency.resident, kMiB);
  EXPECT_EQ(context->file_native(context, 1, 1), 0);
  EXPECT_TRUE(backend_.IsFileNative(1));
  ppc_memory memory{};
  EXPECT_EQ(context->memory(context, 0, &memory), 0);
  EXPECT_EQ(memory.used, kMiB);
  context->stat(context, "depth", 7);
  EXPECT_EQ(runtime->StatusJson()["stats"]["depth"], 7);
}

// A shard that was replaced while what is known of it is still fresh.
TEST_F(RuntimeTest, AServiceThatStartsFindsTheFilesThatAreThereNow) {
  policy_.Want(0);
  auto runtime = Started();
  ppc_file_info info{};
  const auto number = [&] {
    EXPECT_EQ(policy_.context->file_info(policy_.context, "a", &info), 0);
    return info.file;
  };
  EXPECT_EQ(number(), 1u);
  backend_.AddFile(1, "gone", 64 * kMiB);
  backend_.AddFile(2, "a", 64 * kMiB);
  backend_.AdvanceClock(1);
  EXPECT_EQ(number(), 1u);
  EXPECT_TRUE(runtime->Control({{"op", "service_start"}, {"service_id", "svc"}}).ok());
  EXPECT_EQ(number(), 2u);
}

TEST_F(RuntimeTest, TraceLinesGoToTheFile) {
  TempTree tree;
  policy_.Want(0);
  RuntimeConfig config;
  config.options.trace_file = tree.Path("/trace");
  auto runtime = Started(std::move(config));
  policy_.context->trace(policy_.context, "{\"t\":1}");
  policy_.context->trace(policy_.context, "two\nlines");
  runtime->Shutdown();
  EXPECT_EQ(*ReadFile(tree.Path("/trace")), "{\"t\":1}\n");
}

TEST_F(RuntimeTest, ATraceFileThatIsALinkIsRefused) {
  TempTree tree;
  tree.Link("/trace", "/etc/passwd");
  RuntimeConfig config;
  config.options.trace_file = tree.Path("/trace");
  auto runtime = MakeRuntime(&backend_, policy_, std::move(config));
  EXPECT_FALSE(runtime->Start().ok());
  EXPECT_FALSE(backend_.IsAttached());
}

TEST_F(RuntimeTest, AHookMayAskAboutTheFileItWasCalledFor) {
  policy_.Want(0);
  std::string path;
  policy_.prefetch = [&](const miss_io& miss) {
    backend_.AdvanceClock(10ULL * 1000 * 1000 * 1000);  // what is known is stale by now
    ppc_file_info info;
    EXPECT_EQ(policy_.context->file_info(policy_.context, miss.path, &info), 0);
    path = miss.path;
  };
  auto runtime = Started();
  backend_.Push(MissEvent(1, 0, kMiB));
  (void)runtime->executor().RunOnce();
  EXPECT_EQ(path, "a");
}

TEST_F(RuntimeTest, ServicesThroughControl) {
  std::vector<Json> seen;
  policy_.control = [&](const std::string& text) {
    seen.push_back(*ParseJson(text, "x"));
    if (seen.back()["op"] == "service_start") return std::string("{\"mode\": \"record\"}");
    if (seen.back()["op"] == "refuse") return std::string("{\"error\": \"not now\"}");
    return seen.back()["op"] == "unknown" ? std::string() : std::string("{}");
  };
  auto runtime = Started();
  const Json started =
      Value(runtime->Control({{"op", "service_start"}, {"service_id", "s"}, {"workers", 2}}));
  EXPECT_EQ(started["mode"], "record");
  EXPECT_EQ(started["service"], 0);
  EXPECT_EQ(seen[0]["xpus"], Json({0, 1}));
  EXPECT_EQ(runtime->StatusJson()["services"][0]["service_id"], "s");
  EXPECT_TRUE(runtime->Control({{"op", "service_ready"}, {"service_id", "s"}}).ok());
  EXPECT_EQ(seen[1]["service"], 0);
  EXPECT_EQ(runtime->Control({{"op", "service_ready"}, {"service_id", "x"}}).error().code, ENOENT);
  EXPECT_EQ(runtime->Control({{"op", "refuse"}}).error().message, "not now");
  EXPECT_EQ(runtime->Control({{"op", "unknown"}}).error().code, ENOTSUP);
  EXPECT_EQ(runtime->Control({{"x", 1}}).error().code, EINVAL);
  EXPECT_TRUE(runtime->Control({{"op", "service_stop"}, {"service_id", "s"}}).ok());
  EXPECT_EQ(runtime->services().Started(), 0u);
}

TEST_F(RuntimeTest, AServiceThatThePolicyRefusesIsNotStarted) {
  policy_.control = [](const std::string&) { return std::string("{\"error\": \"no template\"}"); };
  auto runtime = Started();
  EXPECT_FALSE(runtime->Control({{"op", "service_start"}, {"service_id", "s"}}).ok());
  EXPECT_EQ(runtime->services().Started(), 0u);
}

TEST_F(RuntimeTest, ASecondStartThatIsRefusedStopsTheServiceInThePolicyToo) {
  std::vector<std::string> seen;
  policy_.control = [&](const std::string& text) {
    seen.push_back((*ParseJson(text, "x"))["op"]);
    return std::string(seen.size() == 2 ? "{\"error\": \"not again\"}" : "{}");
  };
  auto runtime = Started();
  EXPECT_TRUE(runtime->Control({{"op", "service_start"}, {"service_id", "s"}}).ok());
  EXPECT_EQ(runtime->Control({{"op", "service_start"}, {"service_id", "s"}}).error().message,
            "not again");
  EXPECT_EQ(runtime->services().Started(), 0u);
  EXPECT_EQ(seen, (std::vector<std::string>{"service_start", "service_start", "service_stop"}));
}

TEST_F(RuntimeTest, ControlComesAfterTheEventsBeforeIt) {
  int events = 0;
  policy_.prefetch = [&](const miss_io&) { ++events; };
  policy_.control = [&](const std::string&) {
    return "{\"events\":" + std::to_string(events) + "}";
  };
  auto runtime = Started();
  constexpr int kEvents = 2000;     // more than one batch; apart, so that none are merged
  constexpr int kNobody = 1 << 22;  // no process's number: a runner's own events do not count
  for (int i = 0; i < kEvents; ++i) {
    const uint64_t offset = static_cast<uint64_t>(i % 2) * 32 * kMiB + i * 4096ull;
    backend_.Push(MissEvent(1, offset, 4096, kNobody + i));
  }
  EXPECT_EQ(Value(runtime->Control({{"op", "service_ready_of_somebody"}}))["events"], kEvents);
}

// What a verb of its own makes it load does not wait for the next tick.
TEST_F(RuntimeTest, APolicyIsAskedForAPlanAfterAMessage) {
  int plans = 0;
  policy_.plan = [&](const ppc_plan_request&) { ++plans; };
  policy_.control = [](const std::string&) { return std::string("{}"); };
  auto runtime = Started();
  // After an event, which is none of a service here, a turn ends long before the next tick.
  const auto turn = [&] {
    backend_.Push(MissEvent(1, 0, 4096, getpid()));
    plans = 0;
    (void)runtime->executor().RunOnce();
    return plans;
  };
  turn();
  EXPECT_EQ(turn(), 0);
  ASSERT_TRUE(runtime->Control({{"op", "a_verb_of_the_policy"}}).ok());
  EXPECT_EQ(turn(), 1);
  EXPECT_EQ(turn(), 0);
}

TEST_F(RuntimeTest, APolicyWithoutControlStillHasServices) {
  auto runtime = Started();
  EXPECT_TRUE(runtime->Control({{"op", "service_start"}, {"service_id", "s"}}).ok());
  EXPECT_TRUE(runtime->Control({{"op", "service_stop"}, {"service_id", "s"}}).ok());
}

TEST_F(RuntimeTest, AHangingHookDetachesTheDevice) {
  std::promise<void> release;
  std::promise<std::string> told;
  policy_.tick = [&](uint64_t) { release.get_future().wait(); };
  RuntimeConfig config;
  config.options.hook_timeout_ms = 2;
  config.on_hang = [&](const std::string& message) { told.set_value(message); };
  auto runtime = Started(std::move(config));
  std::thread executor([&] { (void)runtime->executor().RunOnce(); });
  const std::string message = told.get_future().get();
  EXPECT_TRUE(Has(message, "ppc_tick hangs"));
  EXPECT_FALSE(backend_.IsAttached());
  release.set_value();
  executor.join();
}

TEST_F(RuntimeTest, ShutdownTellsThePolicyWhatWasInterrupted) {
  std::vector<ppc_result> results;
  std::string order;
  policy_.prefetch = [&](const miss_io&) {
    policy_.list.push_back({.file = 1, .offset = 8 * kMiB, .size = 8 * kMiB});
  };
  policy_.done = [&](const ppc_result& result) {
    results.push_back(result);
    order += 'd';
  };
  policy_.exit = [&] { order += 'x'; };
  auto runtime = Started();
  backend_.Push(MissEvent(1, 0, kMiB));
  (void)runtime->executor().RunOnce();
  ASSERT_TRUE(runtime->loader().RunSlice(0));
  runtime->Shutdown();
  ASSERT_EQ(results.size(), 1u);
  EXPECT_EQ(results[0].interrupted, 1);
  EXPECT_EQ(results[0].ok, 2 * kMiB);
  EXPECT_EQ(order, "dx");
}

TEST_F(RuntimeTest, ALogIsReplayedThroughAPolicy) {
  EventLog log;
  log.files.push_back({7, 16 * kMiB, "m"});
  for (uint64_t i = 0; i < 16; ++i) {
    Event access = MissEvent(7, i * kMiB, kMiB);
    access.kind = EventKind::kAccess;
    access.time_ns = i * 20 * 1000 * 1000;
    log.events.push_back(access);
  }
  ReplayBackend backend({.derive_events = true});
  policy_.prefetch = [&](const miss_io& miss) {
    policy_.list.push_back({.file = miss.file, .offset = miss.offset, .size = 64 * kMiB});
  };
  auto runtime = MakeRuntime(&backend, policy_);
  ASSERT_TRUE(runtime->Start().ok());
  backend.AddLog(log);
  while (backend.PendingEvents() > 0) {
    (void)runtime->executor().RunOnce();
    runtime->loader().RunUntilIdle();
  }
  EXPECT_EQ(runtime->executor().Stats().misses, 1u);  // the rest was there in time
  EXPECT_EQ(backend.DiskReadBytes(), 16 * kMiB);      // nothing was read twice
}

}  // namespace

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
