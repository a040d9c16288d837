// SPDX-License-Identifier: Apache-2.0
#include "daemon/exec/auto_services.h"

#include <filesystem>

#include "tests/unit/exec/executor_fixture.h"
#include "tests/unit/temp_tree.h"

namespace ppc {
namespace {

class AutoServicesTest : public ExecutorTest {
 protected:
  AutoServicesTest() {
    backend_.AddFile(2, "model/config.json", kMiB);
    policy_.prefetch = [this](const miss_io& miss) { services_.push_back(miss.service); };
    policy_.control = [this](const std::string& text) {
      told_.push_back(Json::parse(text));
      return reply_;
    };
    policy_.tick = [](uint64_t) {};
  }
  ~AutoServicesTest() override { runtime_.reset(); }
  void StartHere(bool is_on = true) {
    RuntimeConfig config;
    config.roots = SysRoots{tree_.Root(), tree_.Root()};
    config.options.auto_service = is_on;
    Start(std::move(config));
  }
  void Process(int pid, int parent, int group, const std::string& words = "serve") {
    const std::string base = "/proc/" + std::to_string(pid);
    tree_.WriteStat(pid, parent, group);
    tree_.Write(base + "/cgroup", "0::/\n");
    tree_.Write(base + "/cmdline", words);
  }
  void Miss(int pid, uint64_t mib, uint64_t file = 1) {
    Event event = MissEvent(file, mib * kMiB, kPageBytes, pid);
    event.start_ns = 70000000;
    backend_.Push(event);
    Turn();
  }
  // Long enough for a process that is gone to be missed.
  void Wait() {
    for (int i = 0; i < 12; ++i) {
      backend_.AdvanceClock(200 * kMs);
      Turn();
    }
  }
  TempTree tree_;
  std::string reply_ = "{}";
  std::vector<int> services_;  // of the misses
  std::vector<Json> told_;
};

TEST_F(AutoServicesTest, WhoeverLoadsAModelHasAServiceOfHisOwn) {
  Process(9, 1, 9);
  Process(10, 9, 9);
  Process(20, 1, 20, "another");
  StartHere();
  Miss(10, 0);
  ASSERT_EQ(told_.size(), 1u);
  EXPECT_EQ(told_[0]["op"], "service_start");
  EXPECT_EQ(told_[0]["pid"], 9);
  EXPECT_EQ(told_[0]["params"]["model"], "model/a");
  // Nothing is lost of it: also the first miss is the service's.
  EXPECT_EQ(services_, std::vector<int>{0});
  Miss(10, 1);
  Miss(20, 0);
  EXPECT_EQ(services_, (std::vector<int>{0, 0, 1}));
  ASSERT_EQ(told_.size(), 2u);
  EXPECT_NE(told_[0]["service_id"], told_[1]["service_id"]);
  EXPECT_EQ(runtime_->StatusJson()["services"][0]["auto"], true);
}

TEST_F(AutoServicesTest, ItEndsWithItsProgramAndIsFoundAgain) {
  Process(9, 1, 9, "serve");
  StartHere();
  Miss(9, 0);
  Wait();
  ASSERT_EQ(told_.size(), 1u);
  std::filesystem::remove_all(tree_.Path("/proc/9"));
  Wait();
  ASSERT_EQ(told_.size(), 2u);
  EXPECT_EQ(told_[1]["op"], "service_stop");
  EXPECT_EQ(runtime_->services().Started(), 0u);
  Process(30, 1, 30, "serve");
  Miss(30, 0);
  ASSERT_EQ(told_.size(), 3u);
  EXPECT_EQ(told_[2]["service_id"], told_[0]["service_id"]);
}

TEST_F(AutoServicesTest, OneThatComesRightAfterItHasItsName) {
  Process(9, 1, 9, "serve");
  StartHere();
  Miss(9, 0);
  std::filesystem::remove_all(tree_.Path("/proc/9"));
  Process(30, 1, 30, "serve");
  Miss(30, 0);
  ASSERT_EQ(told_.size(), 3u);
  EXPECT_EQ(told_[1]["op"], "service_stop");
  EXPECT_EQ(told_[2]["service_id"], told_[0]["service_id"]);
  EXPECT_FALSE(told_[2].contains("template"));
}

// Both have found that the one before has ended; the second must not end the first's service.
TEST_F(AutoServicesTest, TwoThatComeRightAfterItAreOneService) {
  Process(9, 1, 9, "serve");
  StartHere();
  std::vector<std::string> ops;
  std::vector<std::pair<std::function<void()>, std::function<void()>>> asked;
  AutoServices::Parts parts;
  parts.services = &runtime_->services();
  parts.roots = SysRoots{tree_.Root(), tree_.Root()};
  parts.control = [&ops](const Json& message, const std::function<void(Result<Json>)>& done) {
    ops.push_back(message["op"]);
    done(Json::object());
  };
  parts.offload = [](const auto&, const std::function<void()>& done) { done(); };
  parts.look_up = [&asked](auto work, auto done) {
    asked.emplace_back(std::move(work), std::move(done));
    return true;
  };
  parts.on_decided = [] {};
  AutoServices services(std::move(parts));
  const auto misses = [&](int pid) {
    Event event = MissEvent(1, 0, kPageBytes, pid);
    event.start_ns = 70000000;
    (void)services.Takes(event, 64 * kMiB, "model/a", *runtime_->services().Get(0));
  };
  // All are looked up before the first answer comes.
  const auto look = [&asked] {
    while (!asked.empty()) {
      const auto round = std::exchange(asked, {});
      for (const auto& [work, done] : round) work();
      for (const auto& [work, done] : round) done();
    }
  };
  misses(9);
  services.Decide();
  look();
  std::filesystem::remove_all(tree_.Path("/proc/9"));
  Process(30, 1, 30, "serve");
  Process(31, 30, 30);
  misses(30);
  misses(31);
  services.Decide();
  look();
  EXPECT_EQ(ops, (std::vector<std::string>{"service_start", "service_stop", "service_start"}));
}

TEST_F(AutoServicesTest, OneBesideItIsItsReplica) {
  for (const int pid : {9, 30, 40}) Process(pid, 1, pid, "serve");
  Process(31, 30, 30);
  StartHere();
  for (const int pid : {9, 30, 31, 40}) Miss(pid, 0);
  ASSERT_EQ(told_.size(), 3u);
  const std::string id = told_[0]["service_id"];
  EXPECT_EQ(told_[1]["service_id"], id + ".2");
  EXPECT_EQ(told_[1]["template"], id);
  EXPECT_EQ(told_[2]["service_id"], id + ".3");
  EXPECT_EQ(services_, (std::vector<int>{0, 1, 1, 2}));
}

// The present one of its readers; those of others go on, and new ones begin.
TEST_F(AutoServicesTest, AToldServiceEndsTheAutomaticOneOfItsOwnProcess) {
  Process(9, 1, 9);
  Process(20, 1, 20, "another");
  Process(30, 1, 30, "third");
  StartHere();
  Miss(9, 0);
  Miss(20, 0);
  ASSERT_TRUE(
      runtime_->Control({{"op", "service_start"}, {"service_id", "told"}, {"pid", 9}}).ok());
  ASSERT_EQ(told_.size(), 4u);
  EXPECT_EQ(told_[2]["op"], "service_stop");
  EXPECT_EQ(told_[2]["service_id"], told_[0]["service_id"]);
  EXPECT_EQ(told_[3]["service_id"], "told");
  Miss(9, 1);
  Miss(20, 1);
  Miss(30, 0);
  EXPECT_EQ(services_, (std::vector<int>{0, 1, 2, 1, 0}));
  EXPECT_EQ(told_.size(), 5u);
}

// As a shell script does it, which leads the process group of all of them.
TEST_F(AutoServicesTest, OneProgramAfterTheOtherInAGroupAreTwoStarts) {
  Process(8, 1, 8, "shell");
  Process(9, 8, 8);
  StartHere();
  Miss(9, 0);
  std::filesystem::remove_all(tree_.Path("/proc/9"));
  Process(30, 8, 8);
  Miss(30, 0);
  ASSERT_EQ(told_.size(), 3u);
  EXPECT_EQ(told_[1]["op"], "service_stop");
  EXPECT_EQ(told_[2]["op"], "service_start");
  EXPECT_EQ(told_[2]["service_id"], told_[0]["service_id"]);
}

// As mpirun does it.
TEST_F(AutoServicesTest, OneProgramBesideTheOtherInAGroupAreOneService) {
  Process(8, 1, 8, "launch");
  for (const int pid : {9, 10})
    Process(pid, 8, 8, std::string("serve\0rank", 10) + char('0' + pid));
  Process(11, 8, 8, "another");
  StartHere();
  for (const int pid : {9, 10, 11, 9, 10}) Miss(pid, 0);
  EXPECT_EQ(services_, (std::vector<int>{0, 0, 1, 0, 0}));
  EXPECT_EQ(told_.size(), 2u);
  std::filesystem::remove_all(tree_.Path("/proc/9"));
  Wait();
  EXPECT_EQ(told_.size(), 2u) << "one of them goes on";
  std::filesystem::remove_all(tree_.Path("/proc/10"));
  Wait();
  ASSERT_EQ(told_.size(), 3u);
  EXPECT_EQ(told_[2]["op"], "service_stop");
}

// As a registration that names its service starts it.
TEST_F(AutoServicesTest, AnOpenServiceStartsAgainWhenItsReadersAreOthers) {
  Process(9, 1, 9);
  Process(10, 1, 10, "another");
  StartHere();
  ASSERT_TRUE(runtime_
                  ->Control({{"op", "service_start"},
                             {"service_id", "own"},
                             {"workers", 1},
                             {"resumed", true},
                             {"by_cgroup", false}})
                  .ok());
  Miss(9, 0);
  Miss(10, 0);
  EXPECT_EQ(services_, (std::vector<int>{0, 0}));
  EXPECT_EQ(told_.size(), 1u) << "both belong to the start that was told of";
  std::filesystem::remove_all(tree_.Path("/proc/9"));
  Process(30, 1, 30);
  Miss(30, 0);
  EXPECT_EQ(told_.size(), 1u) << "one of them goes on";
  std::filesystem::remove_all(tree_.Path("/proc/10"));
  std::filesystem::remove_all(tree_.Path("/proc/30"));
  Wait();
  EXPECT_EQ(told_.size(), 1u);
  Process(40, 1, 40);
  Miss(40, 0);
  Miss(40, 1);
  ASSERT_EQ(told_.size(), 2u);
  EXPECT_EQ(told_[1]["op"], "service_start");
  EXPECT_EQ(told_[1]["service_id"], "own");
  EXPECT_EQ(told_[1]["workers"], 1);
  EXPECT_FALSE(told_[1].contains("resumed"));
  EXPECT_EQ(services_, (std::vector<int>{0, 0, 0, 0, 0}));
  EXPECT_TRUE(runtime_->Control({{"op", "service_ready"}, {"service_id", "own"}}).ok());
}

// Like a registration's own service: ready from the beginning, since no process reads yet.
TEST_F(AutoServicesTest, AnOpenServiceThatIsReadyStartsWithItsFirstReader) {
  Process(9, 1, 9);
  StartHere();
  ASSERT_TRUE(
      runtime_->Control({{"op", "service_start"}, {"service_id", "own"}, {"ready", true}}).ok());
  Miss(9, 0);
  Miss(9, 1);
  ASSERT_EQ(told_.size(), 2u);
  EXPECT_EQ(told_[1]["op"], "service_start");
  EXPECT_FALSE(told_[1].contains("ready"));
  EXPECT_EQ(services_, (std::vector<int>{0, 0}));
}

TEST_F(AutoServicesTest, NobodyElseHasOne) {
  Process(9, 1, 9, "cat config.json");
  Process(11, 2, 0, "");
  StartHere();
  Miss(9, 0, 2);  // a small file
  Miss(11, 0);
  Miss(77, 0);  // gone already
  EXPECT_EQ(services_, (std::vector<int>{-1, -1, -1}));
  EXPECT_TRUE(told_.empty());
}

// ONNX's external data, shards of a few MiB.
TEST_F(AutoServicesTest, ManyFilesOfADirectoryAreAModel) {
  constexpr uint64_t kFiles = AutoServices::kManyBytes / (16 * kMiB);
  Process(9, 1, 9, "serve");
  for (uint64_t i = 0; i < 2 * kFiles; ++i) {
    const char* const directory = i % 2 == 0 ? "parts/" : "others/";
    backend_.AddFile(10 + i, directory + std::to_string(i), 16 * kMiB);
  }
  StartHere();
  // Here and there, or again and again, they are none.
  for (uint64_t i = 0; i < 2 * kFiles; ++i) Miss(9, 0, 10 + i);
  for (uint64_t i = 0; i < 2 * kFiles; ++i) Miss(9, i, 10);
  EXPECT_TRUE(told_.empty());
  for (uint64_t i = 0; i < kFiles; ++i) Miss(9, 0, 10 + 2 * i);
  ASSERT_EQ(told_.size(), 1u);
  EXPECT_EQ(told_[0]["op"], "service_start");
  EXPECT_EQ(told_[0]["params"]["model"], "parts/");
  EXPECT_EQ(services_.back(), 0);
}

TEST_F(AutoServicesTest, OneThatIsRefusedIsNotAskedForAgain) {
  Process(9, 1, 9, "serve");
  reply_ = R"({"error": "no"})";
  StartHere();
  Miss(9, 0);
  Miss(9, 1);
  EXPECT_EQ(services_, (std::vector<int>{-1, -1}));
  EXPECT_EQ(told_.size(), 1u);
}

TEST_F(AutoServicesTest, ItCanBeSwitchedOff) {
  Process(9, 1, 9, "serve");
  StartHere(/*is_on=*/false);
  Miss(9, 0);
  EXPECT_EQ(services_, std::vector<int>{-1});
  EXPECT_TRUE(told_.empty());
}

}  // namespace
}  // namespace ppc
