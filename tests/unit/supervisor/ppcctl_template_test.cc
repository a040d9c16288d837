// SPDX-License-Identifier: Apache-2.0
// Templates at the command line: made, shown, compared, removed; what is wrong with them.
#include <filesystem>
#include <fstream>

#include "tests/unit/supervisor/daemon_fixture.h"

namespace ppc::control {
namespace {

class CtlTemplateTest : public DaemonTest {
 protected:
  // One file with one tensor.
  static void MakeModel(const std::string& path) {
    std::filesystem::create_directories(path);
    const std::string json =
        R"({"m.q_proj.weight":{"dtype":"U8","shape":[64,1024],"data_offsets":[0,65536]}})";
    std::string head(8, '\0');
    head[0] = static_cast<char>(json.size());
    std::ofstream(path + "/model.safetensors") << head + json << std::string(65536, 'x');
    std::ofstream(path + "/config.json") << "{}";
  }
};

TEST_F(CtlTemplateTest, ADamagedTemplateIsOneClearError) {
  std::ofstream(dir_ + "/bad.ppct") << "PPCT but not really";
  ExpectFailure(Ctl({"template", "show", dir_ + "/bad.ppct"}), 1, "bad.ppct");
  const ProcessResult missing = Ctl({"template", "dump", "0123456789abcdef0123456789abcdef"});
  EXPECT_EQ(missing.exit_status, 1);
  EXPECT_EQ(Ctl({"template", "list"}).exit_status, 0) << "an empty store is fine";
}

TEST_F(CtlTemplateTest, TemplatesAreMadeFromHeadersComparedAndRemoved) {
  const std::string model = dir_ + "/base/model";
  const std::string store = dir_ + "/store";
  MakeModel(model);
  const auto ctl = [&](std::vector<std::string> words) {
    words.insert(words.end(), {"--dir", store});
    return Ctl(words);
  };
  const ProcessResult made = ctl({"template", "synth", model, "--tp", "2", "--root", dir_ + "/base",
                                  "--id", "made-up-1", "--json"});
  ASSERT_EQ(made.exit_status, 0) << made.err;
  const Json answer = *ParseJson(made.out, "synth");
  EXPECT_EQ(answer["template"]["groups"].size(), 3u);
  const std::string shown = ctl({"template", "show", "made-up-1"}).out;
  EXPECT_TRUE(Has(shown, "service made-up-1  generation "));
  EXPECT_TRUE(Has(shown, "  model/model.safetensors  safetensors  64.1 KiB"));
  EXPECT_TRUE(Has(shown, "  WORKER   NODE  SEQUENCE"));
  const ProcessResult json_too = ctl({"template", "show", "made-up-1", "--json"});
  EXPECT_EQ((*ParseJson(json_too.out, "show"))["groups"].size(), 3u);
  EXPECT_EQ(answer["template"]["files"][1]["path"], "model/model.safetensors");
  EXPECT_TRUE(Has(ctl({"template", "list"}).out, "made-up-1  synthetic"));
  EXPECT_EQ(ctl({"template", "verify", "made-up-1", "--root", dir_ + "/base"}).exit_status, 0);

  EXPECT_EQ(ctl({"template", "rerecord", "made-up-1"}).exit_status, 0);
  EXPECT_TRUE(Has(ctl({"template", "list"}).out, "to be recorded anew"));
  EXPECT_TRUE(Has(ctl({"template", "show", "made-up-1"}).out, "rerecord"));
  ExpectFailure(ctl({"template", "rerecord", "made-up-9"}), 1);
  EXPECT_EQ(ctl({"template", "rerecord", "not an id"}).exit_status, 2);

  ASSERT_EQ(
      ctl({"template", "synth", model, "--root", dir_ + "/base", "--id", "made-up-2"}).exit_status,
      0);
  EXPECT_EQ(ctl({"template", "diff", "made-up-1", "made-up-1"}).exit_status, 0);
  const ProcessResult diff = ctl({"template", "diff", "made-up-1", "made-up-2"});
  EXPECT_EQ(diff.exit_status, 1);
  EXPECT_TRUE(Has(diff.out, "group 1"));
  ExpectFailure(
      ctl({"template", "merge", store + "/ma/made-up-1.ppct", store + "/ma/made-up-2.ppct"}), 1,
      "two services");
  EXPECT_EQ(ctl({"template", "merge", store + "/ma/made-up-1.ppct"}).exit_status, 0);

  std::ofstream(model + "/model.safetensors", std::ios::app) << "y";
  const ProcessResult changed = ctl({"template", "verify", "made-up-1", "--root", dir_ + "/base"});
  EXPECT_EQ(changed.exit_status, 1);
  EXPECT_TRUE(Has(changed.out, "model/model.safetensors: has 65"));
  EXPECT_EQ(ctl({"template", "rm", "made-up-1"}).exit_status, 0);
  ExpectFailure(ctl({"template", "rm", "made-up-1"}), 1, "made-up-1.ppct: no such template");
  EXPECT_EQ(ctl({"template", "rm", "../x"}).exit_status, 2);
}

// Reads what the service's template names, and nothing beside it.
TEST_F(CtlTemplateTest, WhatATemplateNamesIsWarmed) {
  const std::string base = dir_ + "/base";
  MakeModel(base + "/model");
  std::ofstream(base + "/model/other.bin") << std::string(1 << 20, 'x');
  const ProcessResult made = Ctl({"template", "synth", base + "/model", "--root", base, "--id",
                                  "made-up-3", "--loader", "read"});
  ASSERT_EQ(made.exit_status, 0) << made.err;
  const ProcessResult warmed = Ctl({"warm", "--id", "made-up-3", base, "--json"});
  ASSERT_EQ(warmed.exit_status, 0) << warmed.err;
  const uint64_t read = (*ParseJson(warmed.out, "warm"))["read"];
  EXPECT_GE(read, 65536U);
  EXPECT_LT(read, 1U << 20);
  ExpectFailure(Ctl({"warm", "--id", "made-up-9", base}), 1);
}

TEST_F(CtlTemplateTest, SynthSaysWhatIsWrong) {
  const std::string model = dir_ + "/model";
  std::filesystem::create_directories(model);
  std::ofstream(model + "/model.safetensors") << "not a header at all";
  struct Case {
    std::vector<std::string> words;
    int status;
    std::string wanted;
  };
  for (const Case& c : {Case{{model}, 2, "give --root"}, Case{{model, "--root", dir_}, 2, "--id"},
                        Case{{model, "--root", dir_, "--id", "abcd", "--tp", "0"}, 2, "--tp"},
                        Case{{model, "--root", dir_, "--id", "a/b"}, 2, "not a service ID"},
                        Case{{model, "--root", dir_, "--id", "abcd", "--loader", "x"}, 2, "ranks"},
                        Case{{dir_, "--root", model, "--id", "abcd"}, 2, "not below"},
                        Case{{model, "--root", dir_, "--id", "abcd"}, 1, "model.safetensors"},
                        Case{{dir_ + "/no", "--root", dir_}, 1, "No such file"}}) {
    std::vector<std::string> words{"template", "synth"};
    words.insert(words.end(), c.words.begin(), c.words.end());
    ExpectFailure(Ctl(words), c.status, c.wanted);
  }
}

}  // namespace
}  // namespace ppc::control
