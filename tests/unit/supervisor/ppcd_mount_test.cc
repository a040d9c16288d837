// SPDX-License-Identifier: Apache-2.0
// Registrations whose mount goes, or comes back as another.
#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include <optional>

#include "daemon/base/unique_fd.h"
#include "tests/unit/supervisor/daemon_fixture.h"

namespace ppc::control {
namespace {

class MountGoesTest : public DaemonTest {
 protected:
  void SetUp() override {
    DaemonTest::SetUp();
    StartDaemon();
  }
};

TEST_F(MountGoesTest, AnUnmountedRegistrationIsRemovedQuietly) {
  Register({{"gone_after_ms", 10}});
  EXPECT_TRUE(WaitForState("native"));
  EXPECT_EQ(DaemonLog().find("<3>"), std::string::npos);
  EXPECT_NE(DaemonLog().find("unmounted"), std::string::npos);
}

TEST_F(MountGoesTest, ADeadRunnerOfAnUnmountedMountIsNotRestarted) {
  Register();
  Unmount(0);
  kill(RunnerPid(), SIGKILL);
  EXPECT_TRUE(Eventually([this] { return Ask({{"op", "list"}})["mounts"].empty(); }));
}

TEST_F(MountGoesTest, AMountThatCameBackWithTheSameNumbersIsANewOne) {
  const Json first = Register();
  const pid_t old_runner = RunnerPid();
  // As long as it is open nothing else gets its inode number.
  const UniqueFd old_entry(
      open((dir_ + "/sysroot/sys/fs/ppc/0").c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
  ASSERT_GE(old_entry.Get(), 0);
  Unmount(0);
  Mount(0, kMount);
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
  EXPECT_TRUE(Ask({{"op", "service_start"}, {"mount", kMount}, {"service_id", "svc-one"}})
                  .value("ok", false));
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
    // As long as it is open nothing else gets its inode number.
    old_entry_.Reset(
        open((dir_ + "/sysroot/sys/fs/ppc/0").c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
    Unmount(0);
    Mount(0, kMount);
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

  UniqueFd old_entry_;
  std::optional<RawClient> client_;
};

TEST_F(ReplacedTest, NotOnceItIsSwitchedOff) {
  EXPECT_EQ(Ask({{"op", "off"}})["ok"], true);
  const std::string said = client_->ReadLine();
  EXPECT_NE(said.find("ESHUTDOWN"), std::string::npos) << said;
  EXPECT_EQ(Ask({{"op", "status"}})["daemon"]["off"], true);
  EXPECT_FALSE(HasStartedAnother());
}

TEST_F(ReplacedTest, NotOnceTheDaemonEnds) {
  EXPECT_EQ(StopDaemon(), 0);
  const std::string said = client_->ReadLine();
  EXPECT_NE(said.find("ESHUTDOWN"), std::string::npos) << said;
  EXPECT_FALSE(HasStartedAnother());
}

TEST_F(MountGoesTest, AMountThatIsGoneIsKnownByItsName) {
  Register();
  kill(RunnerPid(), SIGSTOP);
  Unmount(0);
  EXPECT_TRUE(Ask({{"op", "rm_policy"}, {"mount", kMount}}).value("ok", false));
}

TEST_F(MountGoesTest, AFailedRegistrationEndsWithItsMount) {
  Register({{"drop_after_ms", 0}});
  ASSERT_TRUE(WaitForState("failed"));
  Unmount(0);
  EXPECT_TRUE(Eventually([this] { return Ask({{"op", "list"}})["mounts"].empty(); }));
}

}  // namespace
}  // namespace ppc::control
