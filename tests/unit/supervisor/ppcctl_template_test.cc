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
  const ProcessResult result = Ctl({"template", "show", dir_ + "/bad.ppct"});
  EXPECT_EQ(result.exit_status, 1);
  ExpectOneLine(result);
  EXPECT_NE(result.err.find("bad.ppct"), std::string::npos);
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
  EXPECT_NE(shown.find("service made-up-1  generation "), std::string::npos) << shown;
  EXPECT_NE(shown.find("  model/model.safetensors  safetensors  64.1 KiB"), std::string::npos)
      << shown;
  EXPECT_NE(shown.find("  WORKER   NODE  SEQUENCE"), std::string::npos) << shown;
  const ProcessResult json_too = ctl({"template", "show", "made-up-1", "--json"});
  EXPECT_EQ((*ParseJson(json_too.out, "show"))["groups"].size(), 3u);
  EXPECT_EQ(answer["template"]["files"][1]["path"], "model/model.safetensors");
  EXPECT_NE(ctl({"template", "list"}).out.find("made-up-1  synthetic"), std::string::npos);
  EXPECT_EQ(ctl({"template", "verify", "made-up-1", "--root", dir_ + "/base"}).exit_status, 0);

  EXPECT_EQ(ctl({"template", "rerecord", "made-up-1"}).exit_status, 0);
  EXPECT_NE(ctl({"template", "list"}).out.find("to be recorded anew"), std::string::npos);
  EXPECT_NE(ctl({"template", "show", "made-up-1"}).out.find("rerecord"), std::string::npos);
  const ProcessResult unknown = ctl({"template", "rerecord", "made-up-9"});
  EXPECT_EQ(unknown.exit_status, 1);
  ExpectOneLine(unknown);
  EXPECT_EQ(ctl({"template", "rerecord", "not an id"}).exit_status, 2);

  ASSERT_EQ(
      ctl({"template", "synth", model, "--root", dir_ + "/base", "--id", "made-up-2"}).exit_status,
      0);
  EXPECT_EQ(ctl({"template", "diff", "made-up-1", "made-up-1"}).exit_status, 0);
  const ProcessResult diff = ctl({"template", "diff", "made-up-1", "made-up-2"});
  EXPECT_EQ(diff.exit_status, 1);
  EXPECT_NE(diff.out.find("group 1"), std::string::npos) << diff.out;
  const ProcessResult merge =
      ctl({"template", "merge", store + "/ma/made-up-1.ppct", store + "/ma/made-up-2.ppct"});
  EXPECT_EQ(merge.exit_status, 1);
  EXPECT_NE(merge.err.find("two services"), std::string::npos) << merge.err;
  EXPECT_EQ(ctl({"template", "merge", store + "/ma/made-up-1.ppct"}).exit_status, 0);

  std::ofstream(model + "/model.safetensors", std::ios::app) << "y";
  const ProcessResult changed = ctl({"template", "verify", "made-up-1", "--root", dir_ + "/base"});
  EXPECT_EQ(changed.exit_status, 1);
  EXPECT_NE(changed.out.find("model/model.safetensors: has 65"), std::string::npos) << changed.out;
  EXPECT_EQ(ctl({"template", "rm", "made-up-1"}).exit_status, 0);
  const ProcessResult again = ctl({"template", "rm", "made-up-1"});
  EXPECT_EQ(again.exit_status, 1);
  EXPECT_NE(again.err.find("made-up-1.ppct: no such template"), std::string::npos) << again.err;
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
  const ProcessResult unknown = Ctl({"warm", "--id", "made-up-9", base});
  EXPECT_EQ(unknown.exit_status, 1);
  ExpectOneLine(unknown);
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
    const ProcessResult result = Ctl(words);
    EXPECT_EQ(result.exit_status, c.status) << result.err;
    EXPECT_NE(result.err.find(c.wanted), std::string::npos) << result.err;
    ExpectOneLine(result);
  }
}

}  // namespace
}  // namespace ppc::control
