// SPDX-License-Identifier: Apache-2.0
//
// Record once, then use: what the MAIO tests share.
#ifndef TESTS_POLICY_MAIO_FIXTURE_H_
#define TESTS_POLICY_MAIO_FIXTURE_H_

#include <gtest/gtest.h>

#include <memory>

#include "tests/policy/model.h"

namespace ppc::test {

constexpr uint64_t kMiB = 1 << 20;

class MaioTest : public ::testing::Test {
 protected:
  struct Setup {
    Options options;
    ModelShape shape;
    uint64_t rate = 60 << 10;  // bytes per millisecond and worker
    uint64_t init_ms = 500;    // between the first small read and the weights
    nlohmann::json config = nlohmann::json::object();
    uint32_t no_caps = 0;  // what the backend cannot do, PPC_CAN_*
    uint32_t more_caps = 0;
    bool is_mapped = true;  // else readers use read()
    std::vector<int> xpus = {0, 1};
    std::vector<int> reader_xpus = {0, 1};
    std::vector<uint32_t> order = {0, 1};  // which slice each reader takes
  };

  std::unique_ptr<Simulator> Make(const Setup& setup) {
    auto sim = std::make_unique<Simulator>(PolicyPath("maio"), setup.options);
    sim->template_dir = store_.path();
    sim->SetConfig(setup.config);
    sim->caps = (sim->caps & ~setup.no_caps) | setup.more_caps;
    model_ = AddModel(sim.get(), setup.shape);
    EXPECT_EQ(sim->Init(), 0);
    return sim;
  }

  nlohmann::json StartMessage(const Setup& setup) {
    return {{"op", "service_start"},
            {"service_id", kId},
            {"service", 1},
            {"workers", setup.order.size()},
            {"xpus", setup.xpus}};
  }
  nlohmann::json Start(Simulator* sim, const Setup& setup) {
    return Settle(sim, StartMessage(setup));
  }
  // With the reason that it has once all is stored.
  nlohmann::json End(Simulator* sim, const char* op) {
    return Settle(sim, {{"op", op}, {"service_id", kId}});
  }
  // What the service says to a message, and of itself when what goes on in the background is done.
  nlohmann::json Settle(Simulator* sim, const nlohmann::json& message) {
    nlohmann::json reply = sim->Control(message);
    sim->RunBackground();
    if (reply.contains("error")) return reply;
    const nlohmann::json status = sim->Control({{"op", "status"}});
    for (const auto& service : status["services"]) {
      if (service["service_id"] != message["service_id"]) continue;
      if (message["op"] == "service_start") return service;
      reply["reason"] = service["reason"];
    }
    return reply;
  }

  void AddReaders(Simulator* sim, const Setup& setup) {
    for (uint32_t w = 0; w < setup.order.size(); w++) {
      Reader r;
      r.pid = 100 + static_cast<int>(w);
      r.xpu = setup.reader_xpus.empty() ? -1 : setup.reader_xpus[w];
      r.mapped = setup.is_mapped;
      r.bytes_per_ms = setup.rate;
      r.start_ms = sim->ms();
      r.accesses.push_back({model_.config_file, 0, 8 << 10, 0, 0});
      for (Access a : WorkerAccesses(model_, setup.order[w])) {
        a.not_before_ms = sim->ms() + setup.init_ms;
        r.accesses.push_back(a);
      }
      sim->readers.push_back(r);
    }
  }

  // A recording run; the template lies in the store afterwards.
  void Record(Setup setup) {
    setup.options.limit = 0;
    auto sim = Make(setup);
    nlohmann::json reply = Start(sim.get(), setup);
    ASSERT_EQ(reply["mode"], "record") << reply;
    AddReaders(sim.get(), setup);
    ASSERT_TRUE(sim->Run(60000));
    sim->RunFor(50);
    reply = End(sim.get(), "service_ready");
    ASSERT_EQ(reply["reason"], "template stored") << reply;
  }

  // A run with the template; ends with ready.
  std::unique_ptr<Simulator> Use(const Setup& setup) {
    auto sim = Make(setup);
    nlohmann::json reply = Start(sim.get(), setup);
    EXPECT_EQ(reply["mode"], "use") << reply;
    AddReaders(sim.get(), setup);
    EXPECT_TRUE(sim->Run(120000)) << "readers did not finish";
    sim->RunFor(300);
    status_ = End(sim.get(), "service_ready");
    return sim;
  }

  static constexpr char kId[] = "0123456789abcdef0123456789abcdef";
  TempDir store_;
  Model model_;
  nlohmann::json status_;
};

}  // namespace ppc::test

#endif  // TESTS_POLICY_MAIO_FIXTURE_H_
