// SPDX-License-Identifier: Apache-2.0
// MAIO with its templates in an etcd that fails.
#include <gtest/gtest.h>

#include <string>

#include "extras/etcd/tests/fake_http.h"
#include "tests/policy/maio_fixture.h"
#include "tests/policy/maio_store_fixture.h"

namespace ppc::test {
namespace {

// Lost, refusing, and breaking off.
TEST_F(MaioStoreTest, AnEtcdThatFailsIsOneWarning) {
  std::string gone;
  {
    maio::FakeHttp server([](const std::string&) { return std::string(); });
    gone = server.url();
  }
  maio::FakeHttp refuses([](const std::string& request) {
    const bool reads = request.find("/v3/kv/range") != std::string::npos;
    return maio::FakeHttp::Reply(reads ? 200 : 403, reads ? "{}" : R"({"error":"read only"})");
  });
  maio::FakeHttp breaks([](const std::string&) { return std::string("HTTP/1.1 200 OK\r\n"); });
  for (const std::string& url : {gone, refuses.url(), breaks.url()})
    ExpectOneWarning("etcd:" + url);
}

// A store that never answers is asked by no hook, and is given up.
TEST_F(MaioStoreTest, NoHookWaitsForASlowEtcd) {
  maio::FakeHttp silent([](const std::string&) { return std::string(maio::FakeHttp::kNever); });
  setup_.config["store"] = "etcd:" + silent.url();
  Simulator* sim = Node("a", setup_);
  sim->Control(StartMessage(setup_));
  sim->RunBackground(1);
  EXPECT_EQ(StatusOf(sim)["mode"], "record");
  EXPECT_EQ(silent.requests(), 0);
  AddReaders(sim, setup_);
  EXPECT_TRUE(sim->Run(60000));
  sim->RunFor(50);
  const int before = silent.requests();
  sim->Control({{"op", "service_ready"}, {"service_id", kId}});
  EXPECT_EQ(silent.requests(), before);
  sim->RunBackground();
  EXPECT_EQ(StatusOf(sim)["reason"], "template stored");
  EXPECT_GE(silent.requests(), 1);
  EXPECT_EQ(Warnings(*sim), 1u);
}

}  // namespace
}  // namespace ppc::test
