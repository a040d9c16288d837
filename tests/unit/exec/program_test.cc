// SPDX-License-Identifier: Apache-2.0
#include "daemon/exec/program.h"

#include <gtest/gtest.h>

#include "sim/replay/replay_backend.h"
#include "tests/unit/temp_tree.h"

namespace ppc {
namespace {

using Words = std::vector<std::string>;

std::string Joined(const Words& words) {
  std::string text;
  for (const std::string& word : words) text += word + '\0';
  return text;
}

class ListedBackend : public ReplayBackend {
 public:
  ListedBackend() : ReplayBackend({}) {}
  Status List(const std::string&, const DirEntry& entry) override {
    for (const std::string& name : names) {
      if (!entry(name.c_str(), 'f')) break;
    }
    return Ok();
  }
  Words names;
};

class ProgramTest : public testing::Test {
 protected:
  ProgramTest() : roots_{tree_.Root(), tree_.Root()} {}
  void Process(int pid, int parent, int group, const std::string& exe, const Words& words) {
    const std::string base = "/proc/" + std::to_string(pid);
    tree_.Write(base + "/stat", std::to_string(pid) + " (a b) S " + std::to_string(parent) + " " +
                                    std::to_string(group) +
                                    " 1 0 -1 0 0 0 0 0 0 0 0 0 20 0 1 0 7 0\n");
    tree_.Write(base + "/cmdline", Joined(words));
    tree_.Link(base + "/exe", exe);
    tree_.Link(base + "/cwd", "/srv");
  }
  int RootOf(int pid) {
    const std::optional<Program> program = ProgramOf(roots_, pid, 0);
    return program ? program->root.pid : 0;
  }
  TempTree tree_;
  SysRoots roots_;
};

TEST_F(ProgramTest, AnInterpreterIsKnownByItsScriptOrModule) {
  const auto script = [](const Words& words) {
    return ScriptOf("/usr/bin/python3.11", words, "/srv");
  };
  EXPECT_EQ(script({"python3", "/usr/bin/vllm", "serve", "m", "--port", "80"}), "/usr/bin/vllm");
  EXPECT_EQ(script({"python", "serve.py", "--seed", "1"}), "/srv/serve.py");
  EXPECT_EQ(script({"python", "-u", "-X", "dev", "-W", "error", "a.py"}), "/srv/a.py");
  EXPECT_EQ(script({"python", "-m", "vllm.entrypoints.openai.api_server", "--port", "1"}),
            "-m vllm.entrypoints.openai.api_server");
  EXPECT_EQ(script({"python", "-c", "print(1)"}), script({"python", "-c", "print(2)"}));
  EXPECT_EQ(script({"python"}), "");
  EXPECT_EQ(script({"VLLM::APIServer"}), "VLLM::APIServer");
  EXPECT_EQ(ScriptOf("/usr/bin/llama-server", {"llama-server", "-m", "a.gguf"}, "/"), "");
  EXPECT_EQ(ScriptOf("/usr/bin/java", {"java", "-cp", "a:b", "Main", "9"}, "/"), "Main");
}

TEST_F(ProgramTest, HelpersAndForksBelongToTheProgramThatStartedThem) {
  const std::string exe = "/usr/bin/python3.11";
  Process(9, 1, 9, "/bin/bash", {"bash", "start.sh"});
  Process(10, 9, 9, exe, {"python3", "serve.py"});
  Process(11, 10, 9, exe, {"python3", "-c", "from multiprocessing.spawn import spawn_main"});
  Process(12, 11, 9, exe, {"VLLM::Worker_TP0"});
  Process(13, 10, 9, exe, {"python3", "serve.py"});
  for (const int pid : {10, 11, 12, 13}) EXPECT_EQ(RootOf(pid), 10) << pid;
  const std::optional<Program> program = ProgramOf(roots_, 12, 0);
  ASSERT_TRUE(program);
  EXPECT_EQ(program->script, "/srv/serve.py");
  EXPECT_EQ(program->group, 9);
}

// What a script, a service manager or a test runs one after the other are starts of their own.
TEST_F(ProgramTest, AnotherProgramOrGroupIsOnItsOwn) {
  const std::string exe = "/usr/bin/python3.11";
  Process(10, 1, 10, exe, {"python3", "/usr/bin/supervisord"});
  Process(11, 10, 11, exe, {"VLLM::APIServer"});
  Process(12, 10, 10, exe, {"python3", "load.py"});
  Process(13, 10, 10, "/usr/bin/llama-server", {"llama-server"});
  for (const int pid : {11, 12, 13}) EXPECT_EQ(RootOf(pid), pid) << pid;
  EXPECT_EQ(RootOf(77), 0) << "it is gone";
}

TEST_F(ProgramTest, AModelIsAFileOrASet) {
  EXPECT_EQ(ModelOf(nullptr, "a.gguf"), "a.gguf");
  EXPECT_EQ(ModelOf(nullptr, "q/m-00003-of-00005.gguf"), "q/m-*-of-00005.gguf");
  EXPECT_EQ(ModelOf(nullptr, "q/part-of-it.bin"), "q/part-of-it.bin");
  const std::string blob(64, 'a');
  EXPECT_EQ(ModelOf(nullptr, "models--x/blobs/" + blob), "models--x/blobs/");
  EXPECT_EQ(ModelOf(nullptr, "blobs/sha256-" + blob), "blobs/sha256-" + blob) << "of all models";
  ListedBackend backend;
  backend.names = {"a.safetensors", "config.json"};
  EXPECT_EQ(ModelOf(&backend, "m/a.safetensors"), "m/a.safetensors");
  backend.names.emplace_back("model.safetensors.index.json");
  EXPECT_EQ(ModelOf(&backend, "m/a.safetensors"), "m/");
}

TEST_F(ProgramTest, TheIdDependsOnProgramAndModelAlone) {
  Program one;
  one.exe = "/usr/bin/python3";
  one.script = "/srv/serve.py";
  one.root = {10, 1};
  Program again = one;
  again.root = {20, 2};
  again.group = 3;
  EXPECT_EQ(AutoServiceId(one, "m/"), AutoServiceId(again, "m/"));
  EXPECT_NE(AutoServiceId(one, "m/"), AutoServiceId(one, "n/"));
  again.script = "/srv/other.py";
  EXPECT_NE(AutoServiceId(one, "m/"), AutoServiceId(again, "m/"));
}

}  // namespace
}  // namespace ppc
