// SPDX-License-Identifier: Apache-2.0
// A ppcd of its own for tests of a verb, and a model that is a hole.
#ifndef PPC_TESTS_UNIT_SUPERVISOR_VERBS_FIXTURE_H_
#define PPC_TESTS_UNIT_SUPERVISOR_VERBS_FIXTURE_H_

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "tests/unit/supervisor/daemon_fixture.h"

namespace ppc::control {

namespace fs = std::filesystem;

constexpr uint64_t kModelBytes = 20 << 20;

class VerbsTest : public DaemonTest {
 protected:
  void SetUp() override {
    DaemonTest::SetUp();
    model_ = fs::canonical(dir_).string() + "/model";
    file_ = model_ + "/a.safetensors";
    fs::create_directories(model_);
    std::ofstream(file_) << "";
    // A hole: of its right size, and nothing of it in memory.
    fs::resize_file(file_, kModelBytes);
    environment_.push_back("XDG_RUNTIME_DIR=" + dir_);
    environment_.push_back("HF_HUB_CACHE=" + dir_ + "/hub");
  }
  void StartService(const char* id) {
    ASSERT_EQ(Ctl({"service", "start", "/proc", "--id", id}).exit_status, 0);
  }
  // The answer of a verb that succeeds.
  Json Told(std::vector<std::string> words, int exit_status = 0) {
    const auto dashes = std::find(words.begin(), words.end(), "--");
    words.insert(dashes, "--json");
    const ProcessResult result = Ctl(words);
    EXPECT_EQ(result.exit_status, exit_status) << words[0] << ": " << result.err;
    const Result<Json> json = ParseJsonObject(result.out, words[0]);
    EXPECT_TRUE(json) << result.out;
    return json ? *json : Json::object();
  }
  // What a policy says that has loaded all, of a service whose reader has half of it behind it.
  static Json Following(const std::string& id) {
    return {{"services",
             {{{"service_id", id},
               {"mode", "use"},
               {"template_bytes", 1000},
               {"loaded", 900},
               {"redundant", 100},
               {"groups", {{{"consumed", 1000}, {"total", 2000}, {"ahead", 300}}}}}}}};
  }

  std::string model_;
  std::string file_;
};

}  // namespace ppc::control

#endif  // PPC_TESTS_UNIT_SUPERVISOR_VERBS_FIXTURE_H_
