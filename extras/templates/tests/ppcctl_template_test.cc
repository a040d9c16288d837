// SPDX-License-Identifier: Apache-2.0
// `template ...` as its users meet it.
#include "extras/templates/tests/template_fixture.h"

namespace ppc::control {
namespace {

TEST_F(CtlTemplateTest, ADamagedTemplateIsOneClearError) {
  std::ofstream(dir_ + "/bad.ppct") << "PPCT but not really";
  ExpectFailure(Ctl({"template", "show", dir_ + "/bad.ppct"}), 1, "bad.ppct");
  const ProcessResult missing = Ctl({"template", "dump", "0123456789abcdef0123456789abcdef"});
  EXPECT_EQ(missing.exit_status, 1);
  EXPECT_EQ(Ctl({"template", "list"}).exit_status, 0) << "an empty store is fine";
  for (const std::vector<std::string>& words :
       {std::vector<std::string>{"template"}, {"template", "nonsense"}, {"template", "show"}}) {
    ExpectFailure(Ctl(words), 2);
  }
  ExpectFailure(Ctl({"template", "show", "not an id"}), 2);
  ExpectJsonFailure(Ctl({"template", "show", "--json", "none-such"}), 1);
  ExpectJsonFailure(Ctl({"template", "diff", "--json", "none-such", "none-such"}), 2);
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
