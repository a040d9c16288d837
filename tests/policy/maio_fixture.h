// SPDX-License-Identifier: Apache-2.0
// Record once, then use: what the MAIO tests share.
#ifndef TESTS_POLICY_MAIO_FIXTURE_H_
#define TESTS_POLICY_MAIO_FIXTURE_H_

#include <gtest/gtest.h>

#include <filesystem>
#include <functional>
#include <memory>
#include <string>

#include "policies/maio/template/template.h"
#include "tests/policy/model.h"
#include "tests/unit/has.h"

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

  using Change = std::function<void(Simulator*)>;

  // Without files, and the policy not yet begun.
  std::unique_ptr<Simulator> Empty(const Setup& setup) {
    auto sim = std::make_unique<Simulator>(PolicyPath("maio"), setup.options);
    sim->template_dir = store_.Root();
    sim->SetConfig(setup.config);
    sim->caps = (sim->caps & ~setup.no_caps) | setup.more_caps;
    return sim;
  }
  // `change` has its way before the policy begins.
  std::unique_ptr<Simulator> Make(const Setup& setup, const Change& change = {}) {
    auto sim = Empty(setup);
    model_ = AddModel(sim.get(), setup.shape);
    if (change) change(sim.get());
    EXPECT_EQ(sim->Init(), 0);
    return sim;
  }
  // The service has started, in this mode if any is named, and its readers are there.
  std::unique_ptr<Simulator> Begin(const Setup& setup, const char* mode = nullptr,
                                   const Change& change = {}) {
    auto sim = Make(setup, change);
    const nlohmann::json service = Start(sim.get(), setup);
    EXPECT_TRUE(mode == nullptr || service["mode"] == mode) << service;
    AddReaders(sim.get(), setup);
    return sim;
  }

  nlohmann::json StartMessage(const Setup& setup) {
    return {{"op", "service_start"},
            {"service_id", kId},
            {"service", 1},
            {"workers", setup.order.size()},
            {"xpus", setup.xpus}};
  }
  nlohmann::json Start(HostedPolicy* sim, const Setup& setup) {
    return Settle(sim, StartMessage(setup));
  }
  // With the reason that it has once all is stored.
  nlohmann::json End(HostedPolicy* sim, const char* op) {
    return Settle(sim, {{"op", op}, {"service_id", kId}});
  }
  // The same once all readers are through, and what they did last is told.
  nlohmann::json Finish(Simulator* sim, const char* op = "service_ready") {
    EXPECT_TRUE(sim->Run(120000)) << "readers did not finish";
    sim->RunFor(300);
    return End(sim, op);
  }
  // What the service says to a message, and of itself when what goes on in the background is done.
  nlohmann::json Settle(HostedPolicy* sim, const nlohmann::json& message) {
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

  // The status of the first service.
  static nlohmann::json StatusOf(HostedPolicy* sim) {
    return sim->Control({{"op", "status"}})["services"][0];
  }

  std::string Path() const { return maio::TemplatePath(store_.Root(), kId); }
  bool IsStored() const { return std::filesystem::exists(Path()); }
  maio::Template Stored(const std::string& path = "") const {
    maio::Template t;
    std::string error;
    EXPECT_EQ(maio::Load(path.empty() ? Path() : path, &t, &error), 0) << error;
    return t;
  }
  void Store(const maio::Template& t) const {
    std::string error;
    EXPECT_EQ(maio::Check(t), "");
    EXPECT_EQ(maio::Store(store_.Root(), t, &error), 0) << error;
  }

  // {node, worker} of two workers on each of two nodes.
  static void ExpectTwoOfEachNode(const maio::Template& whole) {
    std::vector<std::pair<uint32_t, uint32_t>> groups;
    for (const maio::TemplateGroup& group : whole.groups) {
      if (group.id != maio::kCommonGroup) groups.emplace_back(group.node, group.id);
    }
    EXPECT_EQ(groups, (std::vector<std::pair<uint32_t, uint32_t>>{{0, 0}, {0, 1}, {1, 2}, {1, 3}}));
  }
  // Readers populate their mappings in place of reading them.
  static void Populate(Simulator* sim) {
    for (Reader& r : sim->readers) {
      for (Access& a : r.accesses) a.flags = PPC_F_NOT_USER;
    }
  }
  static void PauseHalfWay(Simulator* sim, uint64_t until_ms) {
    for (Reader& r : sim->readers) {
      for (size_t i = r.accesses.size() / 2; i < r.accesses.size(); i++)
        r.accesses[i].not_before_ms = sim->ms() + until_ms;
    }
  }
  static void EndHalfWay(Simulator* sim) {
    for (Reader& r : sim->readers) r.accesses.resize(r.accesses.size() / 2);
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

  // A recording run, `change` has its way when the readers are there; the template lies in the
  // store afterwards.
  void Record(Setup setup, const Change& change = {}) {
    setup.options.limit = 0;
    auto sim = Begin(setup, "record");
    if (change) change(sim.get());
    const nlohmann::json reply = Finish(sim.get());
    ASSERT_EQ(reply["reason"], "template stored") << reply;
  }

  // A run with the template; ends with ready.
  std::unique_ptr<Simulator> Use(const Setup& setup, const Change& change = {}) {
    auto sim = Begin(setup, "use");
    if (change) change(sim.get());
    status_ = Finish(sim.get());
    return sim;
  }

  static constexpr char kId[] = "0123456789abcdef0123456789abcdef";
  TempTree store_;
  Setup setup_;  // that of most tests, as they change it
  Model model_;
  nlohmann::json status_;
};

}  // namespace ppc::test

#endif  // TESTS_POLICY_MAIO_FIXTURE_H_
