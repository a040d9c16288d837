// SPDX-License-Identifier: Apache-2.0
// A service beside others: replicas, who has read-ahead, native starts, what is told.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>

#include "policies/maio/template/template.h"
#include "tests/policy/maio_fixture.h"

namespace ppc::test {
namespace {

// A replica follows what was learnt of its service, and leaves recording to the first.

constexpr const char* kReplica = "feedfacefeedface.2";

class MaioReplicaTest : public MaioTest {
 protected:
  nlohmann::json StartReplica(Simulator* sim) {
    nlohmann::json message = StartMessage({});
    message.update({{"service_id", kReplica}, {"template", kId}, {"service", 2}});
    return Settle(sim, message);
  }

  void AddReplicasReaders(Simulator* sim, const Setup& setup) {
    const size_t before = sim->readers.size();
    AddReaders(sim, setup);
    for (size_t i = before; i < sim->readers.size(); i++) {
      sim->readers[i].service = 2;
      sim->readers[i].pid += 20;
    }
  }
};

TEST_F(MaioReplicaTest, AReplicaFollowsItsServicesTemplate) {
  setup_.shape.shards = 8;
  Record(setup_);
  setup_.options.limit = 160 * kMiB;
  auto sim = Begin(setup_, "use");
  sim->services = {1, 2};
  EXPECT_EQ(StartReplica(sim.get())["mode"], "use");
  sim->RunFor(400);
  AddReplicasReaders(sim.get(), setup_);
  ASSERT_TRUE(sim->Run(60000));
  EXPECT_EQ(sim->reread_bytes, 0u);
  for (const char* id : {kId, kReplica}) {
    const auto reply = Settle(sim.get(), {{"op", "service_ready"}, {"service_id", id}});
    EXPECT_EQ(reply["groups"][0]["consumed"], reply["groups"][0]["total"]) << reply;
  }
}

TEST_F(MaioReplicaTest, AReplicaRecordsNothing) {
  setup_.config = {{"record", "always"}, {"prefetch", false}};
  auto sim = Make(setup_);
  sim->services = {2};
  const auto reply = StartReplica(sim.get());
  EXPECT_EQ(reply["mode"], "native");
  EXPECT_TRUE(Has(reply["reason"].get<std::string>(), "the first of the replicas records"))
      << reply;
  EXPECT_EQ(sim->want & PPC_WANT_TRACE, 0u);
  AddReplicasReaders(sim.get(), setup_);
  ASSERT_TRUE(sim->Run(60000));
  Settle(sim.get(), {{"op", "service_ready"}, {"service_id", kReplica}});
  sim->RunFor(1000);
  for (const char* id : {kId, kReplica}) {
    EXPECT_FALSE(std::filesystem::exists(maio::TemplatePath(store_.Root(), id))) << id;
  }
}

// What is the kernel's to read ahead for a service that does not load, while another one loads.

class MaioNativeTest : public ::testing::Test {
 protected:
  // Service 1 has no template and may not record one.
  MaioNativeTest() {
    host_.template_dir = store_.Root();
    host_.SetConfig({{"record", "never"}});
    EXPECT_EQ(host_.Init(), 0);
    Tell("service_start", 1);
    host_.RunBackground();
    EXPECT_EQ(host_.want, 0u);
  }
  void Tell(const char* op, uint32_t service) {
    const auto reply = host_.Control(
        {{"op", op}, {"service_id", "abc" + std::to_string(service)}, {"service", service}});
    EXPECT_FALSE(reply.contains("error")) << reply;
  }
  void Miss(uint64_t file, int32_t service) {
    miss_io event = host_.Event(PPC_MISS_READ, file, 0, kPage, 100 + service);
    event.service = service;
    (void)host_.ops().ppc_prefetch(&event);
  }

  TempTree store_;
  HostedPolicy host_{PolicyPath("maio")};
  const uint64_t one_ = host_.AddFile("one.safetensors", 8 * kMiB);
  const uint64_t small_ = host_.AddFile("one.json", kPage);
};

TEST_F(MaioNativeTest, AServiceThatDoesNotLoadHasTheKernelsReadAheadBesideOneThatLoads) {
  Miss(one_, 1);
  EXPECT_EQ(host_.native.count(one_), 0u) << "it has it everywhere";
  Tell("service_start", 2);  // until it is known whether it has a template
  ASSERT_NE(host_.want & PPC_WANT_MANAGED_RA, 0u);
  Miss(one_, 1);
  EXPECT_EQ(host_.native[one_], 1);
  Miss(small_, 1);
  EXPECT_EQ(host_.native.count(small_), 0u) << "a window is all of it";
  Tell("service_stop", 2);
  EXPECT_EQ(host_.want & PPC_WANT_MANAGED_RA, 0u);
  EXPECT_EQ(host_.native[one_], 0) << "it is the next loading service's";
}

class MaioNativeBesideTest : public MaioTest {};

TEST_F(MaioNativeBesideTest, AFileThatAnotherServiceLoadsFromStaysManaged) {
  setup_.init_ms = 0;
  Record(setup_);
  auto sim = Make(setup_);
  sim->services = {1, 2};
  ASSERT_EQ(Start(sim.get(), setup_)["mode"], "use");
  // A replica without a template of its own to follow.
  nlohmann::json other = StartMessage(setup_);
  other.update({{"service_id", "feedfacefeedface.2"}, {"service", 2}, {"template", "none"}});
  ASSERT_EQ(Settle(sim.get(), other)["mode"], "native");
  AddReaders(sim.get(), setup_);
  for (Reader& reader : sim->readers) reader.service = 2;
  sim->RunFor(100);
  EXPECT_GT(sim->demand_bytes, 0u) << "its readers miss";
  EXPECT_NE(sim->want & PPC_WANT_MANAGED_RA, 0u);
  for (const uint64_t shard : model_.shards) EXPECT_EQ(sim->native[shard], 0) << shard;
}

// A share of starts runs natively, so that what is gained can be seen.

class MaioHoldbackTest : public MaioTest {
 protected:
  // A start with a template; what the service says of itself when it is ready.
  nlohmann::json Run(uint32_t percent, std::unique_ptr<Simulator>* used = nullptr) {
    Setup setup;
    setup.config = {{"holdback", percent}};
    auto sim = Make(setup);
    started_ = Start(sim.get(), setup);
    AddReaders(sim.get(), setup);
    nlohmann::json ready = Finish(sim.get());
    if (used != nullptr) *used = std::move(sim);
    return ready;
  }
  nlohmann::json started_;
};

TEST_F(MaioHoldbackTest, AHeldBackStartIsLeftAlone) {
  Record(Setup());
  std::unique_ptr<Simulator> sim;
  const nlohmann::json held = Run(100, &sim);
  EXPECT_EQ(held["treatment"], "native");
  EXPECT_EQ(started_["mode"], "native");
  EXPECT_TRUE(Has(started_["reason"].get<std::string>(), "held back"));
  EXPECT_EQ(sim->demand_bytes, sim->disk_bytes) << "something was loaded ahead";
  EXPECT_EQ(sim->want, 0u) << "it is watched";
  // It changes nothing of what is known.
  EXPECT_EQ(Run(0)["treatment"], "policy");
}

TEST_F(MaioHoldbackTest, WhatIsRecordedIsNotHeldBack) {
  EXPECT_EQ(Run(100)["treatment"], "record");
  EXPECT_EQ(started_["mode"], "record");
}

// Another service that starts meanwhile does not make it forgotten.
TEST_F(MaioHoldbackTest, ItIsKnownUntilItIsReady) {
  Record(setup_);
  Setup held;
  held.config = {{"holdback", 100}};
  auto sim = Make(held);
  Start(sim.get(), held);
  nlohmann::json other = StartMessage(held);
  other["service_id"] = "svc-other";
  other["service"] = 2;
  Settle(sim.get(), other);
  EXPECT_EQ(End(sim.get(), "service_ready")["treatment"], "native");
}

// What MAIO tells of a service that it follows.

// Before anybody reads, with room for a part: what the model's pages themselves say.
TEST_F(MaioTest, TellsHowFarLoadsAreAheadOfEachReader) {
  setup_.shape.shards = 8;  // 192 MiB
  Record(setup_);
  setup_.options.limit = 96 * kMiB;
  const auto groups_after = [&](Simulator* sim, uint64_t ms) {
    Start(sim, setup_);
    sim->RunFor(ms);
    return StatusOf(sim)["groups"];
  };
  auto sim = Make(setup_);
  const nlohmann::json some = groups_after(sim.get(), 3000);
  for (uint32_t w = 0; w < 2; w++) {
    uint64_t there = 0;
    for (const Access& a : WorkerAccesses(model_, w)) {
      uint64_t at = 0;
      while (at < a.size && sim->IsResident(a.file, a.offset + at)) at += 4096;
      there += std::min(at, a.size);
      if (at < a.size) break;
    }
    EXPECT_GT(there, 8 * kMiB);
    EXPECT_EQ(some[w]["ahead"], there) << some;
  }
  setup_.options.limit = 0;
  sim = Make(setup_);
  for (const auto& group : groups_after(sim.get(), 3000))
    EXPECT_EQ(group["ahead"], nullptr) << "all is there: " << group;
}

// A start that leaves out the second half of what each worker reads.
TEST_F(MaioTest, TellsWhatIsListedAndNotRead) {
  Record(setup_);
  auto sim = Begin(setup_);
  uint64_t left_out = 0;
  for (Reader& r : sim->readers) {
    const size_t half = r.accesses.size() / 2;
    for (size_t i = half; i < r.accesses.size(); i++) left_out += r.accesses[i].size;
    r.accesses.resize(half);
  }
  ASSERT_TRUE(sim->Run(60000));
  sim->RunFor(300);
  const auto status = StatusOf(sim.get());
  EXPECT_GT(status["unread"], left_out / 3) << "pages that both workers share count once";
  EXPECT_LT(status["unread"], left_out + 8 * kMiB);
  EXPECT_EQ(status["foreign"], 0);
}

}  // namespace
}  // namespace ppc::test
