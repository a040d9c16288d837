// SPDX-License-Identifier: Apache-2.0
// What `top` makes of two looks at a service.
#include "extras/watch/service_view.h"

#include <gtest/gtest.h>

namespace ppc::ctl {
namespace {

Json StatusAt(uint64_t miss_bytes) {
  return {{"mounts",
           {{{"mount", "/m"},
             {"state", "running"},
             {"policy", "maio"},
             {"services", {{{"service_id", "svc"}, {"state", "started"}}}},
             {"runner",
              {{"events", {{"miss_bytes", miss_bytes}}},
               {"device", {{"events_lost", 3}}},
               {"own_cache", 77}}}}}}};
}

// ahead: null = all that is left is loaded.
Json PolicyAt(uint64_t loaded, uint64_t consumed, const Json& ahead = 300) {
  return {{"services",
           {{{"service_id", "svc"},
             {"mode", "use"},
             {"template_bytes", 1000},
             {"loaded", loaded},
             {"redundant", 100},
             {"groups", {{{"consumed", consumed}, {"total", 2000}, {"ahead", ahead}}}}}}}};
}

TEST(ServiceViewTest, PaceIsWhatChangedBetweenTwoLooks) {
  View before = ViewOf(StatusAt(0));
  View now = ViewOf(StatusAt(100));
  AddPolicyStatus(PolicyAt(100, 0), before["/m"]);
  AddPolicyStatus(PolicyAt(500, 400), now["/m"]);
  const ServiceRates rates = RatesOf(before["/m"], now["/m"], "svc", 2);
  EXPECT_DOUBLE_EQ(rates.progress, 0.2);
  EXPECT_DOUBLE_EQ(rates.load_rate, 200);
  EXPECT_DOUBLE_EQ(rates.hit_share, 0.75);
  EXPECT_DOUBLE_EQ(rates.left_s, 2);
  EXPECT_DOUBLE_EQ(rates.slack_bytes, 300);
  EXPECT_DOUBLE_EQ(rates.slack_s, 1.5) << "at the 200 bytes a second of the reader";
  EXPECT_EQ(now["/m"].lost, 3U);
  EXPECT_EQ(now["/m"].services["svc"].resident, 77U);
  const ServiceRates still = RatesOf(now["/m"], now["/m"], "svc", 2);
  EXPECT_LT(still.hit_share, 0) << "nothing was read";
  EXPECT_LT(still.left_s, 0) << "nothing is loaded";
  EXPECT_DOUBLE_EQ(still.slack_bytes, 300);
  EXPECT_LT(still.slack_s, 0) << "at no pace";
  EXPECT_TRUE(ViewOf(Json::array()).empty());
  Json untold = StatusAt(0);
  untold["mounts"][0]["runner"]["services"] = {{{"service_id", "auto-1"}, {"auto", true}}};
  EXPECT_EQ(ViewOf(untold)["/m"].services["auto-1"].state, "auto");
  Json& services = untold["mounts"][0]["runner"]["services"];
  services[0]["guard"] = {{"state", "no_drops"}, {"reason", "why"}};
  EXPECT_EQ(ViewOf(untold)["/m"].services["auto-1"].guard, "no_drops: why");
  services[0]["guard"]["state"] = "open";
  EXPECT_EQ(ViewOf(untold)["/m"].services["auto-1"].guard, "");
}

// The worker that comes first to what is not loaded, which need not have the least.
TEST(ServiceViewTest, SlackIsThatOfTheReaderWhoHasLeast) {
  const auto view = [](uint64_t fast, const Json& fast_ahead, uint64_t slow,
                       const Json& slow_ahead) {
    View made = ViewOf(StatusAt(0));
    Json policy = PolicyAt(0, fast, fast_ahead);
    policy["services"][0]["groups"].push_back(
        {{"consumed", slow}, {"total", 2000}, {"ahead", slow_ahead}});
    AddPolicyStatus(policy, made["/m"]);
    return made["/m"];
  };
  const DirectoryView before = view(0, 0, 0, 0);
  const auto rates = [&before](const DirectoryView& now) { return RatesOf(before, now, "svc", 2); };
  EXPECT_DOUBLE_EQ(rates(view(1000, 600, 100, 400)).slack_bytes, 400);
  EXPECT_DOUBLE_EQ(rates(view(1000, 600, 100, 400)).slack_s, 1.2);
  EXPECT_DOUBLE_EQ(rates(view(1000, nullptr, 100, 400)).slack_s, 8) << "the other one has all";
  EXPECT_DOUBLE_EQ(rates(view(2000, 0, 100, 400)).slack_s, 8) << "the other one has read all";
  const ServiceRates all = rates(view(1000, nullptr, 100, nullptr));
  EXPECT_TRUE(all.is_all_loaded);
  EXPECT_DOUBLE_EQ(all.slack_bytes, 2900) << "what is left to read";
  const ServiceRates done = rates(view(2000, nullptr, 2000, nullptr));
  EXPECT_FALSE(done.is_all_loaded);
  EXPECT_LT(done.slack_bytes, 0);
}

}  // namespace
}  // namespace ppc::ctl
