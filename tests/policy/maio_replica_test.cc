// SPDX-License-Identifier: Apache-2.0
// A replica follows what was learnt of its service, and leaves recording to the first.
#include <gtest/gtest.h>

#include <filesystem>

#include "policies/maio/template/template.h"
#include "tests/policy/maio_fixture.h"

namespace ppc::test {
namespace {

constexpr const char* kReplica = "feedfacefeedface.2";

class MaioReplicaTest : public MaioTest {
 protected:
  nlohmann::json StartReplica(Simulator* sim) {
    return Settle(sim, {{"op", "service_start"},
                        {"service_id", kReplica},
                        {"template", kId},
                        {"service", 2},
                        {"workers", 2},
                        {"xpus", {0, 1}}});
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
  Setup setup;
  setup.shape.shards = 8;
  Record(setup);
  setup.options.limit = 160 * kMiB;
  auto sim = Make(setup);
  ASSERT_EQ(Start(sim.get(), setup)["mode"], "use");
  AddReaders(sim.get(), setup);
  sim->services = {1, 2};
  EXPECT_EQ(StartReplica(sim.get())["mode"], "use");
  sim->RunFor(400);
  AddReplicasReaders(sim.get(), setup);
  ASSERT_TRUE(sim->Run(60000));
  EXPECT_EQ(sim->reread_bytes, 0u);
  for (const char* id : {kId, kReplica}) {
    const auto reply = Settle(sim.get(), {{"op", "service_ready"}, {"service_id", id}});
    EXPECT_EQ(reply["groups"][0]["consumed"], reply["groups"][0]["total"]) << reply;
  }
}

TEST_F(MaioReplicaTest, AReplicaRecordsNothing) {
  Setup setup;
  setup.config = {{"record", "always"}, {"prefetch", false}};
  auto sim = Make(setup);
  sim->services = {2};
  const auto reply = StartReplica(sim.get());
  EXPECT_EQ(reply["mode"], "native");
  EXPECT_NE(reply["reason"].get<std::string>().find("the first of the replicas records"),
            std::string::npos)
      << reply;
  EXPECT_EQ(sim->want & PPC_WANT_TRACE, 0u);
  AddReplicasReaders(sim.get(), setup);
  ASSERT_TRUE(sim->Run(60000));
  Settle(sim.get(), {{"op", "service_ready"}, {"service_id", kReplica}});
  sim->RunFor(1000);
  for (const char* id : {kId, kReplica}) {
    EXPECT_FALSE(std::filesystem::exists(maio::TemplatePath(store_.path(), id))) << id;
  }
}

}  // namespace
}  // namespace ppc::test
