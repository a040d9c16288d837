// SPDX-License-Identifier: Apache-2.0
#include "daemon/exec/learnt_programs.h"

#include <gtest/gtest.h>

#include <fstream>
#include <string>
#include <vector>

#include "daemon/base/files.h"
#include "sim/replay/replay_backend.h"
#include "tests/unit/temp_tree.h"

namespace ppc {
namespace {

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
    const Result<std::string> now = ReadFile(tree_.Path("/learnt/one.json"));
    ASSERT_TRUE(now);
    EXPECT_TRUE(LearntPrograms::Parse(*now, "it")) << damaged;
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
