// SPDX-License-Identifier: Apache-2.0
// Registrations of plain directories, and of a directory with a backend.  A made-up table of
// mounts says that all lies on ext4, and that /proc shows one of the directories.
#include <signal.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#include <filesystem>
#include <fstream>
#include <string>

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
    EXPECT_NE(text.find(part), std::string::npos) << text;
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
  const ProcessResult two = Ctl({"service", "phase", inner, inner});
  EXPECT_EQ(two.exit_status, 2);
  ExpectOneLine(two);
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
  const ProcessResult unknown = Ctl({"reg_policy", Dir("models"), "alpha", "--backend", "ebpf"});
  EXPECT_EQ(unknown.exit_status, 2);
  ExpectOneLine(unknown);
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

}  // namespace
}  // namespace ppc::control
