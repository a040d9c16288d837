// SPDX-License-Identifier: Apache-2.0
//
// Nodes with directories of their own, and what the tests of shared stores look at.
#ifndef TESTS_POLICY_MAIO_STORE_FIXTURE_H_
#define TESTS_POLICY_MAIO_STORE_FIXTURE_H_

#include <algorithm>
#include <filesystem>
#include <memory>
#include <string>

#include "tests/policy/maio_fixture.h"

namespace ppc::test {

class MaioStoreTest : public MaioTest {
 protected:
  // A node with a directory of its own; one lives at a time.
  Simulator* Node(const std::string& name, const Setup& setup) {
    sim_.reset();
    sim_ = std::make_unique<Simulator>(PolicyPath("maio"), setup.options);
    sim_->template_dir = nodes_.path() + "/" + name;
    std::filesystem::create_directories(sim_->template_dir);
    sim_->SetConfig(setup.config);
    model_ = AddModel(sim_.get(), setup.shape);
    EXPECT_EQ(sim_->Init(), 0);
    return sim_.get();
  }
  nlohmann::json StatusOf(Simulator* sim) {
    return sim->Control({{"op", "status"}})["services"][0];
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
    EXPECT_TRUE(sim->Run(60000));
    sim->RunFor(50);
    const nlohmann::json status = End(sim, "service_ready");
    sim->RunBackground();
    for (const std::string& line : sim->log)
      EXPECT_EQ(line.find("background work failed"), std::string::npos) << line;
    return status["reason"].get<std::string>();
  }
  std::string LocalOf(const std::string& name) {
    return maio::TemplatePath(nodes_.path() + "/" + name, kId);
  }

  TempDir nodes_;
  std::unique_ptr<Simulator> sim_;
};

}  // namespace ppc::test

#endif  // TESTS_POLICY_MAIO_STORE_FIXTURE_H_
