// SPDX-License-Identifier: Apache-2.0
#include "daemon/wire/service_id.h"

#include <gtest/gtest.h>

#include <cerrno>
#include <string>

#include "daemon/base/digests.h"

namespace ppc::control {
namespace {

Json Parse(const std::string& text) { return *ParseJson(text, "test"); }

TEST(ServiceId, IsTheHashOfTheCanonicalText) {
  const Result<ServiceName> name = MakeServiceName(Parse(R"({"tp":4,"model":"qwen2.5-72b"})"));
  ASSERT_TRUE(name);
  EXPECT_EQ(name->canonical, R"({"model":"qwen2.5-72b","tp":4})");
  EXPECT_EQ(name->id, Sha256Hex(name->canonical).substr(0, 32));
}

TEST(ServiceId, DoesNotDependOnOrderOrBlanks) {
  const auto a = MakeServiceName(Parse(R"({"a":1,"b":{"x":true,"y":[1,2]}})"));
  const auto b = MakeServiceName(Parse(R"( { "b" : { "y":[ 1, 2 ], "x":true }, "a" : 1 } )"));
  EXPECT_EQ(a->id, b->id);
}

TEST(ServiceId, DependsOnTheOrderInArrays) {
  EXPECT_NE(MakeServiceName(Parse(R"({"a":[1,2]})"))->id,
            MakeServiceName(Parse(R"({"a":[2,1]})"))->id);
}

TEST(ServiceId, LeavesOutWhatDoesNotChangeReading) {
  const auto plain = MakeServiceName(Parse(R"({"model":"m"})"));
  const auto placed = MakeServiceName(
      Parse(R"({"model":"m","host":"n1","port":8000,"xpus":[2,3],"cgroup":"/a","pid":7})"));
  EXPECT_EQ(plain->id, placed->id);
  EXPECT_EQ(placed->canonical, R"({"model":"m"})");
}

TEST(ServiceId, KeepsSuchKeysDeeperDown) {
  EXPECT_EQ(CanonicalParams(Parse(R"({"a":{"port":1}})")), R"({"a":{"port":1}})");
}

TEST(ServiceId, WritesNumbersInTheirShortestForm) {
  EXPECT_EQ(CanonicalParams(Parse(R"({"a":4.0,"b":4,"c":0.50,"d":1e3,"e":-0.0})")),
            R"({"a":4,"b":4,"c":0.5,"d":1000,"e":0})");
}

TEST(ServiceId, NeedsSomethingThatCounts) {
  for (const char* text : {"{}", R"({"port":1,"host":"x"})", "[]", "3", "null"}) {
    const auto name = MakeServiceName(Parse(text));
    ASSERT_FALSE(name) << text;
    EXPECT_EQ(name.error().code, EINVAL);
  }
}

TEST(ServiceId, ChecksGivenIds) {
  EXPECT_TRUE(CheckServiceId("0123456789abcdef0123456789abcdef"));
  EXPECT_TRUE(CheckServiceId("vllm-qwen_7b.v2"));
  for (const char* id :
       {"", "abc", "..", "../../etc", "a/bc", ".hid", "-dash", "bl ank", "nul\n"}) {
    EXPECT_FALSE(CheckServiceId(id)) << id;
  }
  EXPECT_FALSE(CheckServiceId(std::string(65, 'a')));
}

}  // namespace
}  // namespace ppc::control
