// SPDX-License-Identifier: Apache-2.0
// Switching PPC off and on again.
#include <filesystem>

#include "tests/unit/supervisor/daemon_fixture.h"

namespace ppc::control {
namespace {

class OffTest : public DaemonTest {
 protected:
  bool IsMarked() const { return std::filesystem::exists(dir_ + "/off"); }
  void Start() { StartDaemon({"--template-dir", dir_ + "/templates"}); }
};

TEST_F(OffTest, DirectoriesAreTheKernelsAtOnceAndComeBack) {
  Start();
  Register();
  ASSERT_EQ(Ask({{"op", "service_start"}, {"mount", kMount}, {"service_id", "svc-one"}})["ok"],
            true);
  const pid_t runner = RunnerPid();
  const ProcessResult off = Ctl({"off"});
  EXPECT_EQ(off.out, "off: 1 directory is the kernel's alone, until `ppcctl on`\n") << off.err;
  EXPECT_NE(kill(runner, 0), 0) << "its runner still runs";
  EXPECT_TRUE(IsMarked());
  EXPECT_EQ(Ask({{"op", "status"}})["daemon"]["off"], true);
  EXPECT_NE(Ctl({"list"}).out.find("off"), std::string::npos);
  for (const std::vector<std::string>& status :
       std::vector<std::vector<std::string>>{{"status"}, {"status", kMount}}) {
    const std::string said = Ctl(status).out;
    EXPECT_NE(said.find("; off: "), std::string::npos) << said;
    EXPECT_NE(said.find("/proc  alpha  off"), std::string::npos) << said;
  }
  EXPECT_EQ(Ctl({"is-active", kMount}).out, "off\n");
  EXPECT_NE(Ctl({"plan", "/proc"}).out.find("PPC is off"), std::string::npos);
  // Services start natively; twice is once.
  const Json refused = Ask({{"op", "service_start"}, {"mount", kMount}, {"service_id", "svc-two"}});
  EXPECT_NE(refused["error"].get<std::string>().find("ppcctl on"), std::string::npos) << refused;
  EXPECT_EQ(Ctl({"off"}).out, off.out);
  EXPECT_EQ(Ctl({"on"}).out, "on: 1 directory has its policy\n");
  EXPECT_FALSE(IsMarked());
  ASSERT_TRUE(WaitForState("running"));
  EXPECT_EQ(StatusOf()["services"][0]["service_id"], "svc-one");
  EXPECT_EQ(Ctl({"on"}).exit_status, 0);
}

// As after a reboot: what units register meanwhile is there when it is switched on.
TEST_F(OffTest, ANewDaemonIsOffToo) {
  Start();
  ASSERT_EQ(Ctl({"off"}).exit_status, 0);
  EXPECT_EQ(StopDaemon(), 0);
  Start();
  const ProcessResult remembered = Ctl({"reg_policy", kMount, "alpha"});
  EXPECT_NE(remembered.out.find("is remembered; PPC is off"), std::string::npos) << remembered.err;
  EXPECT_LE(RunnerPid(), 0);
  ASSERT_EQ(Ctl({"reg_policy", kOtherMount, "alpha"}).exit_status, 0);
  const std::string unusual = std::string(kOtherMount) + "/";
  EXPECT_EQ(Ask({{"op", "rm_policy"}, {"mount", unusual}}).value("code", ""), "");
  EXPECT_EQ(Ask({{"op", "rm_policy"}, {"mount", unusual}}).value("code", ""), "ENOENT");
  EXPECT_EQ(Ctl({"on"}).out, "on: 1 directory has its policy\n");
  EXPECT_TRUE(WaitForState("running"));
}

TEST_F(OffTest, ItIsSaidThatARebootForgetsIt) {
  StartDaemon({"--template-dir", "/nowhere/templates"});
  const ProcessResult off = Ctl({"off"});
  EXPECT_EQ(off.exit_status, 0);
  EXPECT_NE(off.err.find("a reboot switches it on again"), std::string::npos) << off.err;
  EXPECT_EQ(Ask({{"op", "status"}})["daemon"]["off"], true);
}

TEST_F(OffTest, ItIsSwitchedOnWithoutADaemon) {
  environment_.push_back("PPC_TEMPLATE_DIR=" + dir_ + "/templates");
  Start();
  ASSERT_EQ(Ctl({"off"}).exit_status, 0);
  EXPECT_EQ(StopDaemon(), 0);
  EXPECT_EQ(Ctl({"on"}).exit_status, 0);
  EXPECT_FALSE(IsMarked());
  EXPECT_EQ(Ctl({"on"}).exit_status, 3) << "nothing to switch on, nobody to ask";
}

TEST_F(OffTest, OneCommandAlone) {
  Start();
  environment_.push_back("PPC=off");
  const ProcessResult ran =
      Ctl({"run", "/nowhere", "--required", "--", "sh", "-c", "echo ran; exit 7"});
  EXPECT_EQ(ran.exit_status, 7);
  EXPECT_EQ(ran.out, "ran\n");
  EXPECT_EQ(ran.err, "");
}

}  // namespace
}  // namespace ppc::control
