// SPDX-License-Identifier: Apache-2.0
// Nodes with directories of their own, and what the tests of shared stores look at.
#ifndef TESTS_POLICY_MAIO_STORE_FIXTURE_H_
#define TESTS_POLICY_MAIO_STORE_FIXTURE_H_

#include <algorithm>
#include <filesystem>
#include <memory>
#include <string>

#include "tests/policy/maio_fixture.h"
#include "tests/unit/has.h"

namespace ppc::test {

class MaioStoreTest : public MaioTest {
 protected:
  // A node with a directory of its own; one lives at a time.
  Simulator* Node(const std::string& name, const Setup& setup) {
    sim_.reset();
    sim_ = Make(setup, [&](Simulator* made) {
      made->template_dir = nodes_.Root() + "/" + name;
      std::filesystem::create_directories(made->template_dir);
    });
    return sim_.get();
  }
  static size_t Warnings(const Simulator& sim) {
    return static_cast<size_t>(std::count_if(sim.log.begin(), sim.log.end(), [](const auto& line) {
      return line.find("the local templates are used") != std::string::npos;
    }));
  }
  // Records on a node; how the recording ended.
  std::string RecordOn(const std::string& name, const Setup& setup) {
    Simulator* sim = Node(name, setup);
    Start(sim, setup);
    sim->RunBackground();
    AddReaders(sim, setup);
    const nlohmann::json status = Finish(sim);
    sim->RunBackground();
    for (const std::string& line : sim->log) EXPECT_FALSE(Has(line, "background work failed"));
    return status["reason"].get<std::string>();
  }
  // With a store that fails; the service uses what it recorded.
  void ExpectOneWarning(const std::string& store) {
    Setup setup;
    setup.config["store"] = store;
    std::filesystem::remove_all(nodes_.Root() + "/a");
    EXPECT_EQ(RecordOn("a", setup), "template stored") << store;
    for (int again = 0; again < 3; again++) {
      EXPECT_EQ(Start(sim_.get(), setup)["mode"], "use") << store;
      sim_->RunBackground();
      End(sim_.get(), "service_stop");
    }
    EXPECT_EQ(Warnings(*sim_), 1u) << store;
  }
  std::string LocalOf(const std::string& name) {
    return maio::TemplatePath(nodes_.Root() + "/" + name, kId);
  }

  TempTree nodes_;
  std::unique_ptr<Simulator> sim_;
};

}  // namespace ppc::test

#endif  // TESTS_POLICY_MAIO_STORE_FIXTURE_H_
