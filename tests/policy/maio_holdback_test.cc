// SPDX-License-Identifier: Apache-2.0
//
// A share of starts runs natively, so that what is gained can be seen.
#include <gtest/gtest.h>

#include "tests/policy/maio_fixture.h"

namespace ppc::test {
namespace {

class MaioHoldbackTest : public MaioTest {
 protected:
  // A start with a template; what the service says of itself when it is ready.
  nlohmann::json Run(uint32_t percent, std::unique_ptr<Simulator>* used = nullptr) {
    Setup setup;
    setup.config = {{"holdback", percent}};
    auto sim = Make(setup);
    started_ = Start(sim.get(), setup);
    AddReaders(sim.get(), setup);
    EXPECT_TRUE(sim->Run(60000));
    nlohmann::json ready = End(sim.get(), "service_ready");
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
  EXPECT_NE(started_["reason"].get<std::string>().find("held back"), std::string::npos);
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
  const Setup setup;
  Record(setup);
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

}  // namespace
}  // namespace ppc::test
