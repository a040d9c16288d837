// SPDX-License-Identifier: Apache-2.0
// `ppcctl run` with a model's directory, and places of the test's own for a private ppcd.
#ifndef PPC_TESTS_UNIT_SUPERVISOR_RUN_FIXTURE_H_
#define PPC_TESTS_UNIT_SUPERVISOR_RUN_FIXTURE_H_

#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "tests/unit/supervisor/daemon_fixture.h"

namespace ppc::control {

namespace fs = std::filesystem;

class RunTest : public DaemonTest {
 protected:
  void SetUp() override {
    DaemonTest::SetUp();
    runtime_ = dir_ + "/xdg";
    model_ = fs::canonical(dir_).string() + "/model";
    fs::create_directories(runtime_);
    fs::create_directories(model_);
    std::ofstream(model_ + "/a.safetensors") << "x";
    fs::resize_file(model_ + "/a.safetensors", 20 << 20);
    environment_.push_back("XDG_RUNTIME_DIR=" + runtime_);
    environment_.push_back("HF_HUB_CACHE=" + dir_ + "/hub");
    config_ = R"({"fake":{"log":")" + dir_ + R"(/runner.log"}})";
  }
  void TearDown() override {
    EXPECT_TRUE(Eventually([this] { return fs::is_empty(runtime_); }))
        << "a private directory is left";
    DaemonTest::TearDown();
  }

  static std::vector<std::string> With(std::vector<std::string> before,
                                       const std::vector<std::string>& more) {
    before.insert(before.end(), more.begin(), more.end());
    return before;
  }
  ProcessResult Run(const std::vector<std::string>& arguments) {
    return Ctl(With({"run", "--policy", "alpha", "--config", config_}, arguments));
  }
  // Ctl() where the model's directory is a mount point, which a made-up ppc mount must be.
  ProcessResult RunOnMount(const std::vector<std::string>& arguments) {
    Mount(7, model_.c_str());
    const std::string script = "mount --bind " + model_ + " " + model_ + " && exec \"$@\"";
    const std::vector<std::string> argv = {
        "/usr/bin/unshare", "--mount", "/bin/sh",  "-c",   script, "sh", kPpcctl, "run",
        "--policy",         "alpha",   "--config", config_};
    return RunProcess(With(argv, arguments), environment_);
  }
  static bool CanMount() {
    return geteuid() == 0 && std::system("unshare --mount mount --bind /tmp /tmp 2>/dev/null") == 0;
  }

  std::string runtime_;
  std::string model_;
  std::string config_;
};

}  // namespace ppc::control

#endif  // PPC_TESTS_UNIT_SUPERVISOR_RUN_FIXTURE_H_
