// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <map>
#include <string>

#include "daemon/base/clock.h"
#include "daemon/base/json.h"
#include "extras/etcd/etcd.h"
#include "extras/xllm/instance_service.h"
#include "extras/xllm/registrations.h"

namespace ppc::ctl::xllm {
namespace {

// An etcd with some keys, each under its own lease with a number of seconds left.
class XllmRegistrations : public ::testing::Test {
 protected:
  struct Key {
    std::string value;
    int left_s = 2;
    int revision = 1;
    bool has_lease = true;
  };

  XllmRegistrations() { keys_[kKey].value = ValueOf("1.2.3.4:80", "a"); }

  Result<Json> Answer(const std::string& path, const Json& request) {
    if (error_) return Error{EIO, "no etcd"};
    if (path == "/v3/lease/timetolive")
      return Json{{"TTL", request["ID"].get<std::string>().substr(4)}};
    Json list = Json::array();
    const std::string first = *FromBase64(request["key"].get<std::string>());
    const std::string behind = *FromBase64(request["range_end"].get<std::string>());
    for (const auto& [key, entry] : keys_) {
      if (key < first || key >= behind) continue;
      list.push_back({{"key", Base64(key)},
                      {"value", Base64(entry.value)},
                      {"lease", entry.has_lease ? "1000" + std::to_string(entry.left_s) : "0"},
                      {"mod_revision", std::to_string(entry.revision)}});
    }
    return Json{{"header", Json::object()}, {"kvs", list}};
  }

  static std::string ValueOf(const std::string& name, const std::string& incarnation) {
    return DumpJson({{"name", name}, {"rpc_address", name}, {"incarnation_id", incarnation}});
  }

  Changes Look(double at_s) {
    const Result<Changes> changes =
        registrations_.Look(static_cast<uint64_t>(at_s * static_cast<double>(kNsPerSec)));
    EXPECT_TRUE(changes.ok());
    return changes ? *changes : Changes();
  }

  static constexpr const char* kKey = "/ns/XLLM:DEFAULT:1.2.3.4:80";
  std::map<std::string, Key> keys_;
  bool error_ = false;
  Registrations registrations_{
      [this](const std::string& path, const Json& request) { return Answer(path, request); },
      "/ns/"};
};

TEST_F(XllmRegistrations, OneAppearsAndExpires) {
  keys_["XLLM:DEFAULT:1.2.3.4:81"] = {ValueOf("1.2.3.4:81", "a")};  // of no namespace
  keys_["/ns/XLLM:CACHE:x"] = {"{}"};
  const Changes first = Look(10);
  ASSERT_EQ(first.appeared.size(), 1u);
  EXPECT_EQ(first.appeared[0].name, "1.2.3.4:80");
  EXPECT_TRUE(first.refused.empty());
  EXPECT_TRUE(Look(11).appeared.empty());
  keys_[kKey].left_s = 0;  // no instance renews it
  (void)Look(12);
  keys_.erase(kKey);
  const Changes last = Look(13);
  EXPECT_EQ(last.expired.size(), 1u);
  EXPECT_TRUE(last.deregistered.empty());
}

TEST_F(XllmRegistrations, OneSaysGoodbye) {
  (void)Look(10);
  keys_.erase(kKey);
  const Changes changes = Look(11);
  EXPECT_TRUE(changes.expired.empty());
  EXPECT_EQ(changes.deregistered.size(), 1u);
}

TEST_F(XllmRegistrations, WithoutALeaseNothingExpires) {
  keys_[kKey].has_lease = false;
  (void)Look(10);
  keys_.erase(kKey);
  EXPECT_EQ(Look(100).deregistered.size(), 1u);
}

TEST_F(XllmRegistrations, AnotherIncarnationAppearsAnew) {
  (void)Look(10);
  keys_[kKey].value = ValueOf("1.2.3.4:80", "b");
  EXPECT_EQ(Look(11).appeared.size(), 1u);
}

TEST_F(XllmRegistrations, NonsenseIsToldOnceAndTakesNothingAway) {
  (void)Look(10);
  for (const char* value : {"\xff{", "[]", "{}", R"({"name": 7})", R"({"name": "other"})"}) {
    keys_[kKey].value = value;
    keys_[kKey].revision++;
    const Changes changes = Look(11);
    ASSERT_EQ(changes.refused.size(), 1u) << value;
    EXPECT_NE(changes.refused[0].find(kKey), std::string::npos);
    EXPECT_TRUE(changes.expired.empty() && changes.deregistered.empty());
    EXPECT_TRUE(Look(12).refused.empty());
  }
  keys_[kKey].value = ValueOf("1.2.3.4:80", "a");
  EXPECT_TRUE(Look(13).appeared.empty());
}

TEST_F(XllmRegistrations, WhileEtcdIsAwayNothingChanges) {
  (void)Look(10);
  error_ = true;
  EXPECT_FALSE(registrations_.Look(100 * kNsPerSec).ok());
  EXPECT_EQ(registrations_.size(), 1u);
  error_ = false;
  const Changes changes = Look(101);
  EXPECT_TRUE(changes.appeared.empty() && changes.expired.empty());
}

TEST(XllmWhose, PortsOfThisMachineAlone) {
  EXPECT_EQ(LocalPort("127.0.0.1:8010"), 8010);
  EXPECT_EQ(LocalPort("[::1]:8010").value_or(8010), 8010);  // where there is IPv6
  for (const char* text : {"192.0.2.1:8010", "127.0.0.1", "127.0.0.1:", "127.0.0.1:0",
                           "127.0.0.1:65536", "127.0.0.1:80x", "localhost:80", ":80", ""})
    EXPECT_FALSE(LocalPort(text)) << text;
}

TEST(XllmWhose, ServicesByName) {
  const Json status = {{"mounts",
                        {{{"mount", "/m"}, {"services", {{{"service_id", "svc-a"}}}}},
                         {{"mount", "/n"}, {"services", {{{"service_id", "svc-b"}}}}}}}};
  EXPECT_EQ(ServicesNamed(status, "svc-b"), (std::vector<Service>{{"/n", "svc-b"}}));
  EXPECT_TRUE(ServicesNamed(status, "svc-c").empty());
  EXPECT_TRUE(ServicesNamed(Json::object(), "svc-c").empty());
}

}  // namespace
}  // namespace ppc::ctl::xllm
