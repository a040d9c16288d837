// SPDX-License-Identifier: Apache-2.0
// Starts that begin with the exec of a program that has loaded a model before.
#include <gtest/gtest.h>

#include <filesystem>
#include <map>

#include "daemon/exec/auto_services.h"
#include "tests/unit/exec/test_policy.h"
#include "tests/unit/has.h"
#include "tests/unit/temp_tree.h"
#include "tests/unit/units.h"

namespace ppc {
namespace {

constexpr uint64_t kBegunNs = 70000000;  // of all processes here
constexpr Executable kPython{5, 6};

class ExecBackend : public ReplayBackend {
 public:
  ExecBackend() : ReplayBackend({.caps = CapsHere()}) {}
  static Capabilities CapsHere() {
    Capabilities caps = ReplayOptions().caps;
    caps.execs = true;
    return caps;
  }
  Result<Executable> ExecutableAt(const std::string&) override { return kPython; }
  void WatchExecs(std::span<const Executable> files) override {
    watched.assign(files.begin(), files.end());
  }
  void TakeExecs(std::vector<Exec>* out) override { out->swap(execs); }
  std::vector<Executable> watched;
  std::vector<Exec> execs;
};

class LearntStartsTest : public testing::Test {
 protected:
  LearntStartsTest() {
    backend_.AddFile(1, "model/a", 256 * kMiB);
    backend_.AddFile(2, "other/b", 256 * kMiB);
    policy_.control = [this](const std::string& text) {
      told_.push_back(Json::parse(text));
      return std::string("{}");
    };
    policy_.tick = [](uint64_t) {};
    policy_.event = [](const miss_io&) {};
    // As much of the model as it gets, whenever it is asked.
    policy_.plan = [this](const ppc_plan_request& request) {
      policy_.list.clear();
      if (Told("service_start") == Told("service_stop")) return;
      asked_ = std::max(asked_, request.max_bytes);
      policy_.list.push_back(ppc_io{
          .path = "model/a", .offset = next_, .size = 16 * kMiB, .service = request.service});
      if (next_ + 16 * kMiB < 256 * kMiB) next_ += 16 * kMiB;
    };
  }
  ~LearntStartsTest() override {
    policy_.done = [](const ppc_result&) {};
    policy_.exit = [] {};
    runtime_.reset();
  }
  void StartHere(bool is_on = true) {
    RuntimeConfig config;
    config.roots = SysRoots{tree_.Root(), tree_.Root()};
    config.options.template_dir = tree_.Path("/templates");
    config.options.learnt_starts = is_on;
    std::filesystem::create_directories(config.options.template_dir);
    runtime_ = MakeRuntime(&backend_, policy_, std::move(config));
    ASSERT_TRUE(IsOk(runtime_->Start()));
  }
  void Process(int pid, const std::string& script = "/serve.py", int uid = 7,
               const std::string& cgroup = "/") {
    const std::string base = "/proc/" + std::to_string(pid);
    const std::string user = std::to_string(uid);
    tree_.WriteStat(pid, 1, pid);
    tree_.Write(base + "/cgroup", "0::" + cgroup + "\n");
    tree_.Write(base + "/status",
                "Name:\ta\nUid:\t" + user + "\t" + user + "\t" + user + "\t" + user + "\n");
    tree_.Write(base + "/cmdline", std::string("/usr/bin/python3") + '\0' + script + '\0');
  }
  void BeginOne() {
    Process(30);
    Begins(30);
  }
  void Ends(int pid) {
    std::filesystem::remove_all(tree_.Path("/proc/" + std::to_string(pid)));
    Wait(3);
  }
  void Begins(int pid, uint32_t uid = 7) {
    backend_.execs.push_back({kPython, kBegunNs, pid, uid});
    Turn();
  }
  void Turn() {
    (void)runtime_->executor().RunOnce();
    runtime_->loader().RunUntilIdle();
  }
  void Wait(uint64_t seconds) {
    const uint64_t until = backend_.NowNs() + seconds * 1000 * kMs;
    while (backend_.NowNs() < until) {
      backend_.AdvanceClock(50 * kMs);
      Turn();
    }
  }
  void Push(int pid, EventKind kind, uint64_t offset, uint64_t length, uint64_t file) {
    Event event = MissEvent(file, offset, length, pid);
    event.start_ns = kBegunNs;
    event.kind = kind;
    backend_.Push(event);
    Turn();
  }
  // More than what is taken for a look at the model's beginning.
  void Loads(int pid, uint64_t file = 1) {
    for (uint64_t at = 0; at < 48 * kMiB; at += kMiB)
      Push(pid, EventKind::kMissRead, at, kMiB, file);
    Wait(2);
  }
  // A program that has loaded, and has ended.
  void Learnt(const std::string& script = "/serve.py") {
    Process(9, script);
    Loads(9);
    Ends(9);
    told_.clear();
    next_ = asked_ = 0;
  }
  size_t Told(const std::string& op) const {
    return static_cast<size_t>(
        std::ranges::count_if(told_, [&op](const Json& message) { return message["op"] == op; }));
  }
  uint64_t Stat(const char* name) { return runtime_->StatusJson()["learnt_starts"][name]; }
  uint64_t Asked() { return runtime_->StatusJson()["loader"]["asked"]; }

  TempTree tree_;
  ExecBackend backend_;
  TestPolicy policy_;
  std::vector<Json> told_;
  uint64_t next_ = 0;
  uint64_t asked_ = 0;
  std::unique_ptr<Runtime> runtime_;
};

TEST_F(LearntStartsTest, TheNextStartBeginsWithTheExec) {
  StartHere();
  EXPECT_TRUE(backend_.watched.empty());
  Learnt();
  EXPECT_EQ(backend_.watched, std::vector{kPython});
  const uint64_t before = Asked();
  BeginOne();
  ASSERT_EQ(told_.size(), 1u);
  EXPECT_EQ(told_[0]["op"], "service_start");
  EXPECT_EQ(told_[0]["pid"], 30);
  EXPECT_EQ(told_[0]["params"]["model"], "model/a");
  Wait(5);
  EXPECT_EQ(Asked() - before, Guard::kGuessBytes);
  // The first read, though it misses nothing, lifts the bound.
  Push(30, EventKind::kProgress, 0, kMiB, 1);
  Wait(1);
  EXPECT_GT(Asked() - before, Guard::kGuessBytes);
  EXPECT_EQ(Stat("guesses"), 1u);
  EXPECT_EQ(Stat("right"), 1u);
  EXPECT_EQ(Stat("wrong"), 0u);
  EXPECT_EQ(told_.size(), 1u);
  Loads(30);
  Ends(30);
  EXPECT_EQ(Told("service_stop"), 1u);
  EXPECT_EQ(backend_.watched, std::vector{kPython});
}

TEST_F(LearntStartsTest, AHundredExecsThatLoadNothingAreOneGuess) {
  StartHere();
  Learnt();
  const uint64_t before = Asked();
  for (int pid = 100; pid < 200; ++pid) {
    Process(pid);
    Begins(pid);
    if (pid % 2 == 0) Ends(pid);
  }
  Wait(70);
  EXPECT_EQ(Asked() - before, Guard::kGuessBytes);
  EXPECT_EQ(Stat("guesses"), 1u);
  EXPECT_EQ(Stat("wrong"), 1u);
  EXPECT_EQ(Stat("wrong_bytes"), Guard::kGuessBytes);
  EXPECT_EQ(Told("service_stop"), 1u);
  EXPECT_TRUE(backend_.watched.empty());
  // Until it has loaded again.
  Loads(151);
  Ends(151);
  Process(300);
  Begins(300);
  EXPECT_EQ(Stat("guesses"), 2u);
}

TEST_F(LearntStartsTest, WithoutAReadForAMinuteItEnds) {
  StartHere();
  Learnt();
  BeginOne();
  Wait(50);
  EXPECT_EQ(Told("service_stop"), 0u);
  Wait(20);
  EXPECT_EQ(Told("service_stop"), 1u);
  EXPECT_EQ(Stat("wrong"), 1u);
  // Its first miss begins a start all the same.
  Push(30, EventKind::kMissRead, 0, kMiB, 1);
  EXPECT_EQ(Told("service_start"), 2u);
}

TEST_F(LearntStartsTest, WhoeverTookLongerIsWaitedForLonger) {
  StartHere();
  backend_.AdvanceClock(100 * 1000 * kMs);
  Learnt();
  BeginOne();
  Wait(180);
  EXPECT_EQ(Told("service_stop"), 0u);
  Wait(40);
  EXPECT_EQ(Told("service_stop"), 1u);
}

TEST_F(LearntStartsTest, OfAnotherScriptUserOrCgroupNothingIsGuessed) {
  StartHere();
  Learnt();
  Process(30, "/other.py");
  Begins(30);
  Process(31, "/serve.py", 8);
  Begins(31, 8);
  Process(32, "/serve.py", 7, "/elsewhere");
  Begins(32);
  // It had ended before it could be looked at.
  Begins(33);
  EXPECT_TRUE(told_.empty());
  EXPECT_EQ(Stat("guesses"), 0u);
  Process(34);
  Begins(34);
  EXPECT_EQ(told_.size(), 1u);
}

TEST_F(LearntStartsTest, AProgramThatLooksAtTheBeginningIsNotLearnt) {
  StartHere();
  Process(9);
  for (int i = 0; i < 100; ++i) Push(9, EventKind::kMissRead, 0, kPageBytes, 1);
  Ends(9);
  EXPECT_EQ(Stat("programs"), 0u);
}

TEST_F(LearntStartsTest, AnotherModelThanGuessedHasItsOwnService) {
  StartHere();
  Learnt();
  BeginOne();
  const std::string guessed = told_.at(0)["service_id"];
  Push(30, EventKind::kMissRead, 0, kMiB, 2);
  ASSERT_EQ(told_.size(), 3u);
  EXPECT_EQ(told_[1]["op"], "service_stop");
  EXPECT_EQ(told_[2]["op"], "service_start");
  EXPECT_EQ(told_[2]["params"]["model"], "other/b");
  EXPECT_NE(told_[2]["service_id"], guessed);
  EXPECT_EQ(Stat("wrong"), 1u);
  // What it has loaded last is what is guessed next.
  Loads(30, 2);
  Ends(30);
  told_.clear();
  Process(31);
  Begins(31);
  ASSERT_EQ(told_.size(), 1u);
  EXPECT_EQ(told_[0]["params"]["model"], "other/b");
}

TEST_F(LearntStartsTest, ItIsKnownAfterTheRunnersRestart) {
  StartHere();
  Learnt();
  runtime_.reset();
  backend_.watched.clear();
  StartHere();
  EXPECT_EQ(backend_.watched, std::vector{kPython});
  BeginOne();
  EXPECT_EQ(Told("service_start"), 1u);
}

TEST_F(LearntStartsTest, WithoutTheOptionNothingIsLearnt) {
  StartHere(/*is_on=*/false);
  Learnt();
  BeginOne();
  EXPECT_TRUE(told_.empty());
  EXPECT_FALSE(runtime_->StatusJson().contains("learnt_starts"));
  // An empty file says that loads vanished.
  if (!std::filesystem::exists(tree_.Path("/templates/learnt"))) return;
  for (const auto& file : std::filesystem::directory_iterator(tree_.Path("/templates/learnt")))
    EXPECT_NE(file.path().extension(), ".json");
}

TEST(LearntStarts, ABackendThatTellsNoExecRefusesThem) {
  ReplayBackend backend({});
  TestPolicy policy;
  RuntimeConfig config;
  config.options.learnt_starts = true;
  const auto runtime = MakeRuntime(&backend, policy, std::move(config));
  const Status started = runtime->Start();
  ASSERT_FALSE(started.ok());
  EXPECT_TRUE(Has(started.error().message, "--backend observer"));
}

}  // namespace
}  // namespace ppc
