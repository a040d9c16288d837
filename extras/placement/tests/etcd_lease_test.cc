// SPDX-License-Identifier: Apache-2.0
// Keys under a lease, in a real etcd if there is one, and against servers that are not etcd.
#include "extras/placement/etcd_lease.h"

#include <gtest/gtest.h>

#include <string>

#include "extras/etcd/etcd.h"
#include "extras/etcd/http.h"
#include "extras/etcd/tests/etcd_server.h"
#include "extras/etcd/tests/fake_http.h"
#include "tests/unit/eventually.h"

namespace ppc {
namespace {

using maio::EtcdServer;
using maio::FakeHttp;

Json AskEtcd(const std::string& url, const Json& request) {
  HttpReply reply;
  std::string error;
  EXPECT_EQ(HttpPost(url, DumpJson(request), 10000, &reply, &error), 0) << error;
  return ParseJsonObject(reply.body, url).value();
}

std::string ValueIn(const EtcdServer& etcd, const std::string& key) {
  const Json reply = AskEtcd(etcd.url("/v3/kv/range"), {{"key", Base64(key)}});
  if (!reply.contains("kvs")) return "";
  return FromBase64(reply["kvs"][0]["value"].get<std::string>()).value();
}

EtcdLease::Options OptionsFor(const std::string& address) {
  EtcdLease::Options options;
  options.address = address;
  options.lease_s = 3;
  options.first_back_off_ms = 10;
  options.most_back_off_ms = 50;
  return options;
}

TEST(EtcdLease, SplitsAnAddress) {
  EXPECT_EQ(SplitEtcdUrl("http://h:1", "/ppc/")->prefix, "/ppc/");
  EXPECT_EQ(SplitEtcdUrl("https://h:1/x", "/ppc/")->address, "https://h:1");
  EXPECT_EQ(SplitEtcdUrl("https://h:1/x", "/ppc/")->prefix, "/x/");
  for (const char* url : {"", "h:1", "http://", "http:///x", "ftp://h", "http://a b", "http://u@h"})
    EXPECT_FALSE(SplitEtcdUrl(url, "/ppc/").has_value()) << url;
}

TEST(EtcdLease, KeysComeChangeAndGo) {
  if (!EtcdServer::IsInstalled()) GTEST_SKIP() << "no etcd";
  EtcdServer etcd;
  ASSERT_TRUE(etcd.is_up());
  {
    EtcdLease lease(OptionsFor(etcd.url("")));
    lease.Set({{"/n/a", "1"}, {"/n/b", "2"}});
    EXPECT_TRUE(Eventually([&] { return ValueIn(etcd, "/n/b") == "2"; }));
    EXPECT_EQ(ValueIn(etcd, "/n/a"), "1");
    lease.Set({{"/n/b", "3"}});
    EXPECT_TRUE(Eventually([&] { return ValueIn(etcd, "/n/a").empty(); }));
    EXPECT_EQ(ValueIn(etcd, "/n/b"), "3");
    EXPECT_TRUE(Eventually([&] { return lease.Read().is_up; }));
    EXPECT_EQ(lease.Read().failures, 0u);
  }
  EXPECT_EQ(ValueIn(etcd, "/n/b"), "");  // lease revoked
}

TEST(EtcdLease, ALeaseThatIsLostIsTakenAnew) {
  if (!EtcdServer::IsInstalled()) GTEST_SKIP() << "no etcd";
  EtcdServer etcd;
  ASSERT_TRUE(etcd.is_up());
  EtcdLease lease(OptionsFor(etcd.url("")));
  lease.Set({{"/n/a", "1"}});
  ASSERT_TRUE(Eventually([&] { return ValueIn(etcd, "/n/a") == "1"; }));
  const auto leases = [&] {
    return AskEtcd(etcd.url("/v3/lease/leases"), Json::object())["leases"];
  };
  const Json before = leases();
  ASSERT_EQ(before.size(), 1u);
  AskEtcd(etcd.url("/v3/lease/revoke"), {{"ID", before[0]["ID"]}});
  EXPECT_TRUE(Eventually([&] {
    const Json now = leases();
    return ValueIn(etcd, "/n/a") == "1" && now.size() == 1 && now[0]["ID"] != before[0]["ID"];
  }));
}

TEST(EtcdLease, NonsenseIsOneErrorAndNobodyWaits) {
  for (const std::string body : {"no json", "[]", "{}", "{\"ID\":[1]}", "{\"error\":\"x\"}"}) {
    const FakeHttp server([&](const std::string&) {
      return "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: " +
             std::to_string(body.size()) + "\r\n\r\n" + body;
    });
    testing::internal::CaptureStderr();
    {
      EtcdLease lease(OptionsFor(server.url()));
      lease.Set({{"/n/a", "1"}});
      EXPECT_TRUE(Eventually([&] { return lease.Read().failures >= 3; })) << body;
      EXPECT_FALSE(lease.Read().is_up);
      EXPECT_NE(lease.Read().last_error.find(server.url()), std::string::npos);
    }
    const std::string log = testing::internal::GetCapturedStderr();
    const size_t first = log.find("cannot publish");
    EXPECT_NE(first, std::string::npos) << log;
    EXPECT_EQ(log.find("cannot publish", first + 1), std::string::npos) << log;
  }
}

TEST(EtcdLease, NobodyThereIsAnError) {
  EtcdLease lease(OptionsFor("http://127.0.0.1:1"));
  lease.Set({{"/n/a", "1"}});
  EXPECT_TRUE(Eventually([&] { return lease.Read().failures >= 2; }));
  EXPECT_FALSE(lease.Read().last_error.empty());
}

}  // namespace
}  // namespace ppc
