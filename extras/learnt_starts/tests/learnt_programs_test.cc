// SPDX-License-Identifier: Apache-2.0
// Programs: what tells one from another, and which are known to load.
#include "daemon/exec/learnt_programs.h"

#include <gtest/gtest.h>

#include <fstream>
#include <string>
#include <vector>

#include "daemon/base/files.h"
#include "daemon/exec/program.h"
#include "sim/replay/replay_backend.h"
#include "tests/unit/has.h"
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
    tree_.WriteStat(pid, parent, group);
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

class WatchingBackend : public ReplayBackend {
 public:
  WatchingBackend() : ReplayBackend({}) {}
  void WatchExecs(std::span<const Executable> files) override {
    watched.assign(files.begin(), files.end());
  }
  std::vector<Executable> watched;
};

Program ProgramNamed(const std::string& script) {
  Program program;
  program.exe = "/usr/bin/python3";
  program.script = script;
  program.cgroup = "/a";
  program.uid = 7;
  return program;
}

class LearntProgramsTest : public testing::Test {
 protected:
  static LearntProgram One(const std::string& script, const std::string& service = "auto-1") {
    const Program program = ProgramNamed(script);
    return {.file = kFile,
            .program = ProgramId(program),
            .service_id = service,
            .model = "model/a",
            .cgroup = program.cgroup,
            .uid = *program.uid,
            .wait_ns = 5};
  }
  LearntPrograms Make() {
    return LearntPrograms(
        {&backend_, tree_.Path("/learnt/one.json"),
         [](const std::function<void()>& work, const std::function<void()>&) { work(); }});
  }
  static constexpr Executable kFile{12, 34};
  static constexpr Exec kExec{kFile, 1, 77, 7};
  TempTree tree_;
  WatchingBackend backend_;
};

TEST_F(LearntProgramsTest, OnlyTheSameProgramUserAndCgroupIsGuessed) {
  LearntPrograms programs = Make();
  EXPECT_FALSE(programs.Knows(kExec));
  programs.NoteLoaded(One("/serve.py"));
  EXPECT_TRUE(programs.Knows(kExec));
  EXPECT_FALSE(programs.Knows({kFile, 1, 77, 8}));
  EXPECT_FALSE(programs.Knows({{13, 34}, 1, 77, 7}));
  ASSERT_NE(programs.Find(kFile, ProgramNamed("/serve.py")), nullptr);
  EXPECT_EQ(programs.Find(kFile, ProgramNamed("/other.py")), nullptr);
  Program of_others = ProgramNamed("/serve.py");
  of_others.uid = 8;
  EXPECT_EQ(programs.Find(kFile, of_others), nullptr);
  of_others = ProgramNamed("/serve.py");
  of_others.cgroup = "/b";
  EXPECT_EQ(programs.Find(kFile, of_others), nullptr);
}

TEST_F(LearntProgramsTest, AProgramIsGuessedOnceUntilItHasLoadedAgain) {
  LearntPrograms programs = Make();
  programs.NoteLoaded(One("/serve.py", "auto-1"));
  programs.NoteLoaded(One("/serve.py", "auto-2"));
  EXPECT_EQ(backend_.watched, (std::vector{kFile, kFile}));
  const LearntProgram* known = programs.Find(kFile, ProgramNamed("/serve.py"));
  ASSERT_NE(known, nullptr);
  EXPECT_EQ(programs.TakeGuess(*known).service_id, "auto-2");
  // No model of it is left; and nothing is asked of the kernel any more.
  EXPECT_FALSE(programs.Knows(kExec));
  EXPECT_EQ(programs.Find(kFile, ProgramNamed("/serve.py")), nullptr);
  EXPECT_TRUE(backend_.watched.empty());
  programs.NoteWrong(100);
  programs.NoteLoaded(One("/serve.py", "auto-1"));
  known = programs.Find(kFile, ProgramNamed("/serve.py"));
  ASSERT_NE(known, nullptr);
  EXPECT_EQ(known->service_id, "auto-1");
  EXPECT_EQ(programs.size(), 2u);
  const LearntPrograms::Stats stats = programs.View();
  EXPECT_EQ(stats.guesses, 1u);
  EXPECT_EQ(stats.wrong, 1u);
  EXPECT_EQ(stats.wrong_bytes, 100u);
}

TEST_F(LearntProgramsTest, AnotherProgramOfTheSameInterpreterIsStillGuessed) {
  LearntPrograms programs = Make();
  programs.NoteLoaded(One("/serve.py"));
  programs.NoteLoaded(One("/other.py"));
  (void)programs.TakeGuess(*programs.Find(kFile, ProgramNamed("/serve.py")));
  EXPECT_TRUE(programs.Knows(kExec));
  EXPECT_EQ(programs.Find(kFile, ProgramNamed("/serve.py")), nullptr);
  EXPECT_NE(programs.Find(kFile, ProgramNamed("/other.py")), nullptr);
}

TEST_F(LearntProgramsTest, TheOneThatLoadedLongestAgoIsReplaced) {
  LearntPrograms programs = Make();
  for (size_t i = 0; i <= LearntPrograms::kMost; ++i)
    programs.NoteLoaded(One("/" + std::to_string(i)));
  EXPECT_EQ(programs.size(), LearntPrograms::kMost);
  EXPECT_EQ(programs.Find(kFile, ProgramNamed("/0")), nullptr);
  EXPECT_NE(programs.Find(kFile, ProgramNamed("/1")), nullptr);
}

TEST_F(LearntProgramsTest, ItOutlivesTheRunner) {
  LearntPrograms first = Make();
  first.Open();
  first.NoteLoaded(One("/serve.py"));
  first.NoteLoaded(One("/other.py"));
  (void)first.TakeGuess(*first.Find(kFile, ProgramNamed("/other.py")));
  backend_.watched.clear();
  LearntPrograms second = Make();
  second.Open();
  EXPECT_EQ(second.Dump(), first.Dump());
  EXPECT_EQ(backend_.watched, std::vector{kFile});
  EXPECT_NE(second.Find(kFile, ProgramNamed("/serve.py")), nullptr);
  EXPECT_EQ(second.Find(kFile, ProgramNamed("/other.py")), nullptr);
}

TEST_F(LearntProgramsTest, ADamagedFileIsReplaced) {
  LearntPrograms good = Make();
  good.NoteLoaded(One("/serve.py"));
  const std::string text = good.Dump();
  for (const std::string& damaged :
       {std::string(), std::string("{"), text.substr(0, text.size() / 2),
        std::string(R"({"version":2,"programs":[]})"),
        std::string(R"({"version":1,"programs":[{"ino":1}]})"),
        std::string(R"({"version":1,"programs":[7]})")}) {
    tree_.Write("/learnt/one.json", damaged);
    LearntPrograms programs = Make();
    programs.Open();
    EXPECT_EQ(programs.size(), 0u) << damaged;
    const std::string now = Value(ReadFile(tree_.Path("/learnt/one.json")));
    EXPECT_TRUE(LearntPrograms::Parse(now, "it")) << damaged;
  }
}

// A path in it is the policy's to open.
TEST_F(LearntProgramsTest, AModelOutsideTheDirectoryIsRefused) {
  LearntPrograms programs = Make();
  LearntProgram outside = One("/serve.py");
  outside.model = "../etc/shadow";
  programs.NoteLoaded(outside);
  EXPECT_FALSE(LearntPrograms::Parse(programs.Dump(), "it"));
}

}  // namespace
}  // namespace ppc
