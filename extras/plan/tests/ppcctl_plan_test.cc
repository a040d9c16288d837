// SPDX-License-Identifier: Apache-2.0
// The bound of a start, and what `plan` says.
#include "extras/plan/needed_bytes.h"
#include "tests/unit/supervisor/verbs_fixture.h"

namespace ppc::control {
namespace {

TEST(StartBound, FollowsMemoryDiskAndStages) {
  ctl::StartCost cost{.bytes = 1000, .disk_rate = 100, .cache_bytes = 2000};
  EXPECT_DOUBLE_EQ(ctl::BoundOf(cost).seconds, 10);
  cost.init_s = 4;
  cost.hot_load_s = 7;
  EXPECT_DOUBLE_EQ(ctl::BoundOf(cost).seconds, 11) << "the disk is done before";
  cost.cache_bytes = 300;
  EXPECT_TRUE(ctl::BoundOf(cost).is_constrained);
  EXPECT_DOUBLE_EQ(ctl::BoundOf(cost).seconds, 11) << "300 are ahead after init";
  cost.hot_load_s = 1;
  cost.init_s = 2;
  EXPECT_DOUBLE_EQ(ctl::BoundOf(cost).seconds, 10) << "init lets 200 in";
}

TEST_F(VerbsTest, PlanSaysWhatRunWouldDoAndDoesNothing) {
  const Json plan = Told({"plan", "--policy", "alpha", "--disk-mbps", "10", "--init", "0.5",
                          "--hot-load", "0.1", "--", "/bin/true", "--model", file_});
  EXPECT_EQ(plan["model"], file_);
  EXPECT_EQ(plan["directory"], model_);
  EXPECT_EQ(plan["found_by"], "named by the command");
  EXPECT_EQ(plan["daemon"]["runs"], false);
  EXPECT_EQ(plan["registered"], false);
  EXPECT_EQ(plan["template"], nullptr);
  EXPECT_EQ(plan["bytes"]["needed"], kModelBytes);
  EXPECT_EQ(plan["bytes"]["resident"], 0);
  EXPECT_DOUBLE_EQ(plan["bound"]["seconds"], static_cast<double>(kModelBytes) / 1e7);
  EXPECT_EQ(plan["bound"]["constrained"], false);
  EXPECT_FALSE(fs::exists(dir_ + "/templates"));
  EXPECT_FALSE(fs::exists(socket_));
  const ProcessResult ran =
      Ctl({"run", "--policy", "alpha", "--", "/bin/sh", "-c", "echo $PPC_SERVICE_ID", file_});
  // Another program, hence another service; the same command is the same.
  EXPECT_NE(ran.out, plan["service_id"].get<std::string>() + "\n");
  const Json same =
      Told({"plan", "--policy", "alpha", "--", "/bin/sh", "-c", "echo $PPC_SERVICE_ID", file_});
  EXPECT_EQ(ran.out, same["service_id"].get<std::string>() + "\n") << ran.err;
  EXPECT_TRUE(same["bound"]["seconds"].is_null()) << "nobody has measured the disk";
  EXPECT_TRUE(Has(Out({"plan", model_, "--disk-mbps", "10"}), "20.0 MiB from disk"));
  EXPECT_EQ(Ctl({"plan", model_, "--disk-mbps", "fast"}).exit_status, 2);
  EXPECT_EQ(Ctl({"plan", dir_ + "/none"}).exit_status, 1);
}

TEST_F(VerbsTest, PlanKnowsTheDaemonAndWhatItMeasured) {
  Start({{"status", {{"loader", {{"device_mbps", 5}}}}}});
  const Json plan = Told({"plan", "/proc", "--id", "svc-plan"});
  EXPECT_EQ(plan["daemon"]["runs"], true);
  EXPECT_EQ(plan["registered"], true);
  EXPECT_EQ(plan["policy"], "alpha");
  EXPECT_EQ(plan["service_id"], "svc-plan");
  EXPECT_EQ(plan["bound"]["disk_mbps"], 5.0);
}

TEST_F(VerbsTest, PlanSaysThatPpcIsOff) {
  StartDaemon({"--template-dir", dir_ + "/templates"});
  Register();
  Out({"off"});
  EXPECT_TRUE(Has(Out({"plan", "/proc"}), "PPC is off"));
}

}  // namespace
}  // namespace ppc::control
