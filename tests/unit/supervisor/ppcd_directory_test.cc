// SPDX-License-Identifier: Apache-2.0
// Registrations of plain directories, and of a directory with a backend.  A made-up table of
// mounts says that all lies on ext4, and that /proc shows one of the directories.  Registrations
// whose mount goes, or comes back as another.
#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <optional>
#include <string>

#include "daemon/base/unique_fd.h"
#include "tests/unit/supervisor/daemon_fixture.h"

namespace ppc::control {
namespace {

class DirectoryTest : public DaemonTest {
 protected:
  void SetUp() override {
    DaemonTest::SetUp();
    for (const char* name : {"models", "other", "shown"}) {
      std::filesystem::create_directory(Dir(name));
    }
    std::ofstream(Dir("file")) << "x";
    struct stat info {};
    ASSERT_EQ(stat(kMount, &info), 0);
    std::filesystem::create_directories(dir_ + "/procroot/proc/self");
    std::ofstream(dir_ + "/procroot/proc/self/mountinfo")
        << "1 0 8:1 / / rw - ext4 /dev/sda1 rw\n"
        << "2 1 0:7 / /sys rw - sysfs sysfs rw\n"
        << "3 1 " << major(info.st_dev) << ":" << minor(info.st_dev) << " / " << kMount
        << " ro - ppc ppc:" << Dir("shown") << " ro\n";
    Unmount(3);
    environment_.push_back("PPC_PROCROOT=" + dir_ + "/procroot");
    StartDaemon();
  }
  std::string Dir(const std::string& name) { return dir_ + "/" + name; }
  Json RegisterOn(const std::string& dir, const std::string& backend,
                  const Json& fake = Json::object()) {
    Json request{
        {"op", "reg_policy"}, {"mount", dir}, {"policy", "alpha"}, {"config", {{"fake", fake}}}};
    if (!backend.empty()) request["backend"] = backend;
    return Ask(request);
  }
  // "CODE text"; "" when it was accepted.
  std::string Refusal(const std::string& dir, const std::string& backend) {
    const Json answer = RegisterOn(dir, backend);
    if (answer.value("ok", false)) return "";
    const auto error = answer.value("error", std::string());
    EXPECT_EQ(error.find('\n'), std::string::npos);
    return answer.value("code", "") + " " + error;
  }
  static void ExpectIn(const std::string& text, const std::string& part) {
    EXPECT_TRUE(Has(text, part));
  }
};

TEST_F(DirectoryTest, APolicyOnADirectoryAsItIs) {
  const Json fake{{"limits", {"pages that nobody reads stay mapped"}}};
  const Json answer = RegisterOn(Dir("models") + "/", "", fake);
  ASSERT_TRUE(answer.value("ok", false)) << answer;
  EXPECT_EQ(answer["backend"], "observer");
  EXPECT_FALSE(answer["existing"]);
  const Json status = StatusOf(Dir("models"));
  EXPECT_EQ(status["mount"], Dir("models"));
  EXPECT_EQ(status["state"], "running");
  EXPECT_EQ(status["backend"], "observer");
  EXPECT_EQ(status["limits"], fake["limits"]);
  EXPECT_FALSE(status.contains("device"));
  EXPECT_FALSE(status.contains("kernel"));
  const ProcessResult text = Ctl({"status", Dir("models")});
  ExpectIn(text.out, "backend observer");
  ExpectIn(text.out, "\n  limit: pages that nobody reads stay mapped\n");
  const Json again = RegisterOn(Dir("models"), "", fake);
  EXPECT_TRUE(again["existing"]) << again;
  EXPECT_EQ(again["handle"], answer["handle"]);
  EXPECT_TRUE(RegisterOn(Dir("models"), "observer", fake)["existing"]) << "what auto has become";
  EXPECT_TRUE(Ask({{"op", "service_start"}, {"mount", Dir("models")}, {"service_id", "svc-one"}})
                  .value("ok", false));
  EXPECT_TRUE(Ask({{"op", "rm_policy"}, {"mount", Dir("models")}}).value("ok", false));
  EXPECT_EQ(Ask({{"op", "rm_policy"}, {"mount", Dir("models")}})["code"], "ENOENT");
}

TEST_F(DirectoryTest, RootsServicesMayNameWhatLiesInADirectory) {
  ASSERT_TRUE(RegisterOn(Dir("models"), "").value("ok", false));
  const std::string inner = Dir("models") + "/inner";
  std::filesystem::create_directory(inner);
  const Json started = Ask({{"op", "service_start"}, {"mount", inner}, {"service_id", "svc-in"}});
  EXPECT_EQ(started["mount"], Dir("models")) << started;
  ExpectIn(Ask({{"op", "policy"}, {"mount", inner}, {"message", {{"op", "status"}}}})["error"],
           " itself: it lies in " + Dir("models"));
  ExpectFailure(Ctl({"service", "phase", inner, inner}), 2);
}

TEST_F(DirectoryTest, AMountTakesTheModuleByItself) {
  const Json answer = RegisterOn(kMount, "");
  EXPECT_EQ(answer["backend"], "kmod") << answer;
  EXPECT_EQ(StatusOf()["device"], "/dev/ppc0");
  EXPECT_TRUE(RegisterOn(kMount, "kmod")["existing"]);
  ExpectIn(Refusal(kMount, "observer"), "EBUSY " + std::string(kMount));
  ExpectIn(Refusal(kMount, "observer"), "on backend kmod, not observer; run ppcctl rm_policy");
}

TEST_F(DirectoryTest, BadInputIsOneLine) {
  ExpectIn(Refusal(Dir("file"), ""), "ENOTDIR " + Dir("file") + " is not a directory");
  ExpectIn(Refusal(Dir("none"), ""), "ENOENT " + Dir("none") + " does not exist");
  ExpectIn(Refusal("/", "observer"), "EINVAL / is all of this machine");
  const auto text_of = [this](const Json& request) { return Ask(request).value("error", ""); };
  ExpectIn(text_of({{"op", "rm_policy"}, {"mount", Dir("other")}}),
           "`ppcctl list` shows where one is");
  ExpectIn(text_of({{"op", "reg_policy"}, {"mount", Dir("other")}, {"policy", "alpa"}}),
           "did you mean 'alpha'");
  ExpectIn(Refusal("models", "observer"), "EINVAL mount must be an absolute path");
  ExpectIn(Refusal("/sys", ""), "EINVAL /sys is on sysfs, where there is nothing to load");
  ExpectIn(Refusal(Dir("models"), "ebpf"), "EINVAL there is no backend 'ebpf'; use auto, kmod");
  ExpectIn(Refusal(Dir("models"), "kmod"), "ENODEV " + Dir("models") + " is not on a ppc mount");
  ExpectIn(Refusal(Dir("models"), "kmod"), "mount -t ppc BASE");
  ExpectIn(Refusal(kMount, "observer"), "EINVAL /proc is a ppc mount");
  ExpectIn(Refusal(kMount, "observer"), "name the directory that it shows, " + Dir("shown"));
  std::filesystem::create_directory_symlink(Dir("models"), Dir("link"));
  ExpectIn(Refusal(Dir("link"), ""), "ELOOP");
  EXPECT_EQ(Ask({{"op", "reg_policy"}, {"mount", kMount}, {"policy", "alpha"}, {"backend", 3}})
                .value("code", ""),
            "EINVAL");
  ExpectFailure(Ctl({"reg_policy", Dir("models"), "alpha", "--backend", "ebpf"}), 2);
  EXPECT_EQ(Ask({{"op", "list"}})["mounts"].size(), 1u) << "the mount, native";
}

TEST_F(DirectoryTest, AnotherBackendIsBusyAndNamesBoth) {
  ASSERT_EQ(Refusal(Dir("models"), "poll"), "");
  ExpectIn(Refusal(Dir("models"), "observer"),
           "on backend poll, not observer; run ppcctl rm_policy " + Dir("models"));
  ExpectIn(Refusal(Dir("models"), "kmod"), "on backend poll, not kmod");
  EXPECT_EQ(Refusal(Dir("models"), ""), "") << "auto takes what is there";
  EXPECT_EQ(StatusOf(Dir("models"))["backend"], "poll");
}

TEST_F(DirectoryTest, AMountAndWhatItShowsAreOne) {
  std::filesystem::create_directory(Dir("shown") + "/sub");
  ASSERT_EQ(Refusal(kMount, "kmod"), "");
  for (const std::string& dir : {Dir("shown"), Dir("shown") + "/sub"}) {
    const std::string refusal = Refusal(dir, "observer");
    ExpectIn(refusal, "EBUSY " + dir + " has files of /proc");
    ExpectIn(refusal, "on backend kmod; run ppcctl rm_policy /proc first");
  }
  EXPECT_EQ(Refusal(Dir("other"), "observer"), "");
  EXPECT_TRUE(Ask({{"op", "rm_policy"}, {"mount", kMount}}).value("ok", false));
  EXPECT_EQ(Refusal(Dir("shown"), "observer"), "");
  ExpectIn(Refusal(kMount, ""), "on backend observer; run ppcctl rm_policy " + Dir("shown"));
}

TEST_F(DirectoryTest, ARestartedDaemonKeepsTheBackend) {
  ASSERT_EQ(Refusal(Dir("models"), "poll"), "");
  ASSERT_EQ(Refusal(Dir("other"), ""), "");
  StopDaemon(SIGKILL);
  std::filesystem::rename(Dir("other"), Dir("other.old"));
  std::filesystem::create_directory(Dir("other"));
  StartDaemon();
  ASSERT_TRUE(WaitForState("running", Dir("models")));
  EXPECT_EQ(StatusOf(Dir("models"))["backend"], "poll");
  EXPECT_EQ(Ask({{"op", "status"}, {"mount", Dir("other")}})["code"], "ENOENT")
      << "another directory of the same name";
}

TEST_F(DirectoryTest, ADirectoryThatGoesTakesItsPolicyAlong) {
  ASSERT_EQ(Refusal(Dir("models"), ""), "");
  const pid_t runner = RunnerPid(Dir("models"));
  std::filesystem::rename(Dir("models"), Dir("renamed"));
  EXPECT_TRUE(Eventually([&] { return kill(runner, 0) != 0; }));
  EXPECT_TRUE(Eventually([&] {
    return Ask({{"op", "status"}, {"mount", Dir("models")}}).value("code", "") == "ENOENT";
  }));
  ExpectIn(DaemonLog(), "models is gone");
}

class MountGoesTest : public RunningDaemonTest {
 protected:
  // Another mount with the numbers of the first, whose inode number stays its own.
  void Replace() {
    old_entry_.Reset(
        open((dir_ + "/sysroot/sys/fs/ppc/0").c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
    ASSERT_GE(old_entry_.Get(), 0);
    Unmount(0);
    Mount(0, kMount);
  }
  bool HasNoMounts() {
    return Eventually([this] { return Ask({{"op", "list"}})["mounts"].empty(); });
  }
  UniqueFd old_entry_;
};

TEST_F(MountGoesTest, AnUnmountedRegistrationIsRemovedQuietly) {
  Register({{"gone_after_ms", 10}});
  EXPECT_TRUE(WaitForState("native"));
  EXPECT_FALSE(Has(DaemonLog(), "<3>"));
  EXPECT_TRUE(Has(DaemonLog(), "unmounted"));
}

TEST_F(MountGoesTest, ADeadOrFailedRunnersRegistrationEndsWithItsMount) {
  Register();
  Unmount(0);
  kill(RunnerPid(), SIGKILL);
  EXPECT_TRUE(HasNoMounts());
  Mount(0, kMount);
  Register({{"drop_after_ms", 0}});
  ASSERT_TRUE(WaitForState("failed"));
  Unmount(0);
  EXPECT_TRUE(HasNoMounts());
}

TEST_F(MountGoesTest, AMountThatCameBackWithTheSameNumbersIsANewOne) {
  const Json first = Register();
  const pid_t old_runner = RunnerPid();
  Replace();
  const Json second = Register();
  EXPECT_TRUE(second.value("ok", false)) << second;
  EXPECT_NE(first["handle"], second["handle"]);
  EXPECT_NE(RunnerPid(), old_runner);
}

TEST_F(MountGoesTest, AMountThatCameBackUnderItsNameWithAnotherNumberIsTheOneThatIsMeant) {
  Register({{"log", dir_ + "/old.log"}});
  const pid_t old_runner = RunnerPid();
  kill(old_runner, SIGSTOP);  // so that it does not notice
  Unmount(0);
  Mount(7, kMount);
  EXPECT_EQ(Ask({{"op", "rm_policy"}, {"mount", kMount}})["code"], "ENOENT");
  ASSERT_TRUE(Register({{"log", dir_ + "/new.log"}}).value("ok", false));
  EXPECT_TRUE(Tell("service_start", "svc-one").value("ok", false));
  EXPECT_TRUE(Eventually(
      [this] { return ReadText(dir_ + "/new.log").find("service_start") != std::string::npos; }));
  kill(old_runner, SIGKILL);
  EXPECT_TRUE(Eventually([this] { return Ask({{"op", "list"}})["mounts"].size() == 1; }));
  StopDaemon(SIGKILL);
  StartDaemon();
  EXPECT_TRUE(WaitForState("running")) << "the end of the old one must not forget the new one";
  EXPECT_EQ(StatusOf()["services"][0]["service_id"], "svc-one");
}

// Its registration waits for the old one's end, and meanwhile there is no more registering.
class ReplacedTest : public MountGoesTest {
 protected:
  void SetUp() override {
    MountGoesTest::SetUp();
    ASSERT_TRUE(Register({{"stop", "hang"}, {"log", dir_ + "/old.log"}}).value("ok", false));
    Replace();
    client_.emplace(socket_);
    client_->SendLine(DumpJson({{"v", 1},
                                {"op", "reg_policy"},
                                {"mount", kMount},
                                {"policy", "alpha"},
                                {"config", {{"fake", {{"log", dir_ + "/new.log"}}}}}}));
    // Its status would wait for the runner.
    ASSERT_TRUE(Eventually([this] {
      return Ask({{"op", "list"}})["mounts"][0]["state"] == "draining";
    }));
  }
  bool HasStartedAnother() { return !ReadText(dir_ + "/new.log").empty(); }

  std::optional<RawClient> client_;
};

TEST_F(ReplacedTest, NotOnceItIsSwitchedOff) {
  EXPECT_EQ(Ask({{"op", "off"}})["ok"], true);
  EXPECT_TRUE(Has(client_->ReadLine(), "ESHUTDOWN"));
  EXPECT_EQ(Ask({{"op", "status"}})["daemon"]["off"], true);
  EXPECT_FALSE(HasStartedAnother());
}

TEST_F(ReplacedTest, NotOnceTheDaemonEnds) {
  EXPECT_EQ(StopDaemon(), 0);
  EXPECT_TRUE(Has(client_->ReadLine(), "ESHUTDOWN"));
  EXPECT_FALSE(HasStartedAnother());
}

// As one that waits in the kernel: in a frozen cgroup no process dies.
TEST_F(MountGoesTest, ARunnerThatDoesNotDieIsLeftToItself) {
  const std::string group = "/sys/fs/cgroup/freezer/ppc-test-" + std::to_string(getpid());
  if (geteuid() != 0 || mkdir(group.c_str(), 0755) != 0) GTEST_SKIP() << "no freezer to use";
  const auto write = [&group](const char* name, const std::string& text) {
    std::ofstream(group + "/" + name) << text;
  };
  Register();
  const pid_t runner = RunnerPid();
  write("cgroup.procs", std::to_string(runner));
  write("freezer.state", "FROZEN");
  EXPECT_TRUE(Ask({{"op", "rm_policy"}, {"mount", kMount}}).value("ok", false));
  EXPECT_TRUE(Has(DaemonLog(), "does not end"));
  EXPECT_TRUE(Ask({{"op", "list"}})["mounts"].empty());
  write("freezer.state", "THAWED");
  EXPECT_TRUE(Eventually([runner] { return kill(runner, 0) != 0; })) << "it is waited for";
  EXPECT_EQ(rmdir(group.c_str()), 0);
}

TEST_F(MountGoesTest, AMountThatIsGoneIsKnownByItsName) {
  Register();
  kill(RunnerPid(), SIGSTOP);
  Unmount(0);
  EXPECT_TRUE(Ask({{"op", "rm_policy"}, {"mount", kMount}}).value("ok", false));
}

}  // namespace
}  // namespace ppc::control
