// SPDX-License-Identifier: Apache-2.0
// The verbs that look.
#include "tests/unit/supervisor/verbs_fixture.h"

namespace ppc::control {
namespace {

TEST_F(VerbsTest, StatusSaysWhatIsDoneForAService) {
  Json reply = Following("svc-status");
  reply["services"][0]["processes"] = 3;
  Start({{"reply", reply}});
  StartService("svc-status");
  EXPECT_EQ(Told({"status"})["mounts"][0]["services"][0]["mode"], "use");
  const ProcessResult text = Ctl({"status"});
  EXPECT_TRUE(Has(text.out, "svc-status  started  following what was recorded  processes 3"));
}

TEST_F(VerbsTest, ARegistrationSaysWhichOthersAreAroundIt) {
  Start();
  const std::string inner = model_ + "/inner";
  fs::create_directories(inner);
  const auto said = [this](const std::string& directory) {
    const ProcessResult result = Ctl({"reg_policy", "--backend", "poll", directory, "alpha"});
    return result.out + result.err;
  };
  EXPECT_FALSE(Has(said(model_), " in it "));
  EXPECT_TRUE(Has(said(inner), "it lies in " + model_ + ","));
  ASSERT_EQ(Ctl({"rm_policy", model_}).exit_status, 0);
  EXPECT_TRUE(Has(said(model_), inner + " in it keeps"));
}

TEST_F(VerbsTest, AReportOfAServiceThatHasEndedSaysSo) {
  if (!HasVerb("report")) GTEST_SKIP() << "the core alone";
  Start();
  ExpectFailure(Ctl({"report", "/proc", "--id", "svc-gone"}), 1,
                "no service svc-gone in /proc now");
}

TEST_F(VerbsTest, BindPidTellsThePolicy) {
  Start();
  Out({"bind-pid", "42", "/proc", "--id", "svc-bind", "--worker", "3"});
  EXPECT_TRUE(WasTold(R"("op":"bind_pid","pid":42,"service_id":"svc-bind","worker":3)"));
  EXPECT_EQ(Ctl({"bind-pid", "42", "/proc", "--id", "svc-bind"}).exit_status, 2);
  EXPECT_EQ(Ctl({"bind-pid", "x", "/proc", "--id", "svc-bind", "--worker", "3"}).exit_status, 2);
}

TEST_F(VerbsTest, DoctorSaysThatNothingIsRegistered) {
  if (!HasVerb("doctor")) GTEST_SKIP() << "the core alone";
  StartDaemon();
  const std::string said = Ctl({"doctor"}).out;
  EXPECT_TRUE(Has(said, "no registered directory is known here"));
}

TEST_F(VerbsTest, XpusNeedNoDaemon) {
  EXPECT_TRUE(Told({"xpus"})["xpus"].empty());
  const std::string device = dir_ + "/sysroot/sys/bus/pci/devices/0000:3b:00.0";
  fs::create_directories(device);
  std::ofstream(device + "/class") << "0x030200\n";
  std::ofstream(device + "/vendor") << "0x10de\n";
  std::ofstream(device + "/numa_node") << "0\n";
  const Json xpus = Told({"xpus"})["xpus"];
  ASSERT_EQ(xpus.size(), 1U);
  EXPECT_EQ(xpus[0]["bdf"], "0000:3b:00.0");
  EXPECT_EQ(xpus[0]["vendor"], "0x10de");
  EXPECT_EQ(xpus[0]["node"], 0);
  EXPECT_TRUE(Has(Ctl({"xpus"}).out, "0    0000:3b:00.0"));
}

}  // namespace
}  // namespace ppc::control
