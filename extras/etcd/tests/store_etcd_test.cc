// SPDX-License-Identifier: Apache-2.0
// Templates in etcd: in a real one, and with servers that fail in every way.
#include <gtest/gtest.h>

#include <cerrno>
#include <nlohmann/json.hpp>
#include <random>
#include <thread>

#include "extras/etcd/tests/etcd_server.h"
#include "extras/etcd/tests/fake_http.h"
#include "policies/maio/template/store.h"
#include "policies/maio/template/template_compare.h"
#include "tests/unit/has.h"
#include "tests/unit/policies/template_samples.h"

namespace ppc::maio {
namespace {

using Bytes = std::vector<uint8_t>;

constexpr uint32_t kLongMs = 60000;  // beyond what a busy machine takes

class RealEtcd : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    if (EtcdServer::IsInstalled()) server_ = new EtcdServer;
  }
  static void TearDownTestSuite() {
    delete server_;
    server_ = nullptr;
  }
  void SetUp() override {
    if (server_ == nullptr) GTEST_SKIP() << "etcd-server is not installed";
    ASSERT_TRUE(server_->is_up());
    store_ = Open();
  }
  std::unique_ptr<TemplateStore> Open() {
    const std::string test = ::testing::UnitTest::GetInstance()->current_test_info()->name();
    return EtcdStore(server_->url("/" + test), kLongMs, &error_);
  }
  static Bytes Random(size_t bytes, uint32_t seed) {
    std::mt19937 random(seed);
    Bytes out(bytes);
    for (uint8_t& byte : out) byte = static_cast<uint8_t>(random());
    return out;
  }

  static EtcdServer* server_;
  std::unique_ptr<TemplateStore> store_;
  std::string error_;
};
EtcdServer* RealEtcd::server_ = nullptr;

TEST_F(RealEtcd, OnePutOfEachGenerationSucceeds) {
  TemplateStore::Value value;
  std::vector<std::string> names;
  EXPECT_EQ(store_->Get("abcd", &value, &error_), -ENOENT);
  EXPECT_EQ(store_->Put("abcd", {1}, 1, &error_), -ESTALE);
  ASSERT_EQ(store_->Put("abcd", {1}, 0, &error_), 0) << error_;
  EXPECT_EQ(store_->Put("abcd", {2}, 0, &error_), -ESTALE);
  ASSERT_EQ(store_->Put("abcd", {2, 0, 255}, 1, &error_), 0) << error_;
  ASSERT_EQ(store_->Get("abcd", &value, &error_), 0) << error_;
  EXPECT_EQ(value.generation, 2u);
  EXPECT_EQ(value.bytes, (Bytes{2, 0, 255}));
  ASSERT_EQ(store_->Put(PartName("abcd", 1), {7}, 0, &error_), 0) << error_;
  ASSERT_EQ(store_->List(&names, &error_), 0) << error_;
  EXPECT_EQ(names, (std::vector<std::string>{"abcd", "abcd.n1.part"}));
  EXPECT_EQ(store_->Remove("abcd", &error_), 0) << error_;
  EXPECT_EQ(store_->Remove("abcd", &error_), -ENOENT);
  ASSERT_EQ(store_->List(&names, &error_), 0) << error_;
  EXPECT_EQ(names, (std::vector<std::string>{"abcd.n1.part"}));
}

// Beyond what etcd takes at once, and back to what it does.
TEST_F(RealEtcd, LargeTemplatesAreCutAndLeaveNothingBehind) {
  TemplateStore::Value value;
  std::vector<std::string> names;
  const size_t sizes[] = {5 << 20, 768 << 10, (768 << 10) + 1, 100, 0};
  for (uint64_t i = 0; i < std::size(sizes); i++) {
    const Bytes bytes = Random(sizes[i], static_cast<uint32_t>(i));
    ASSERT_EQ(store_->Put("abcd", bytes, i, &error_), 0) << error_;
    ASSERT_EQ(Open()->Get("abcd", &value, &error_), 0) << error_;
    EXPECT_EQ(value.bytes, bytes) << i;
    EXPECT_EQ(value.generation, i + 1);
  }
  const auto below =
      EtcdStore(server_->url("/LargeTemplatesAreCutAndLeaveNothingBehind/abcd"), kLongMs, &error_);
  ASSERT_EQ(below->Remove("none", &error_), -ENOENT) << error_;
  const Bytes whole = Random(2 << 20, 9);
  ASSERT_EQ(store_->Put("abcd", whole, std::size(sizes), &error_), 0) << error_;
  ASSERT_EQ(store_->Remove("abcd", &error_), 0) << error_;
  EXPECT_EQ(store_->Get("abcd", &value, &error_), -ENOENT);
  ASSERT_EQ(store_->List(&names, &error_), 0) << error_;
  EXPECT_TRUE(names.empty());
}

TEST_F(RealEtcd, WritersOfOneGenerationHaveOneWinner) {
  for (uint64_t round = 0; round < 3; round++) {
    std::atomic<int> won = 0;
    std::atomic<int> failed = 0;
    std::vector<std::thread> writers;
    for (uint32_t i = 0; i < 12; i++) {
      writers.emplace_back([&, i] {
        std::string error;
        const auto store = EtcdStore(server_->url("/one"), kLongMs, &error);
        const int rc = store->Put("abcd", Random(i % 2 == 0 ? 10 : 2 << 20, i), round, &error);
        if (rc == 0) won++;
        if (rc != 0 && rc != -ESTALE) failed++;
      });
    }
    for (std::thread& writer : writers) writer.join();
    EXPECT_EQ(won, 1);
    EXPECT_EQ(failed, 0);
    TemplateStore::Value value;
    const auto store = EtcdStore(server_->url("/one"), kLongMs, &error_);
    ASSERT_EQ(store->Get("abcd", &value, &error_), 0) << error_;
    EXPECT_EQ(value.generation, round + 1);
  }
}

TEST_F(RealEtcd, KeyedTemplatesAndParts) {
  const StoreKey key(std::string(32, 'k'));
  Template t = SampleTemplate();
  const std::string id = t.service_id;
  ASSERT_EQ(PutTemplate(store_.get(), nullptr, PartName(id, 0), &t, 0, &error_), 0) << error_;
  Template back;
  EXPECT_EQ(GetTemplate(store_.get(), &key, PartName(id, 0), &back, nullptr, &error_), -EBADMSG);
  ASSERT_EQ(PutTemplate(store_.get(), &key, PartName(id, 0), &t, 1, &error_), 0) << error_;
  EXPECT_EQ(MergeParts(store_.get(), &key, id, 2, &back, &error_), -ENOENT);
  ASSERT_EQ(PutTemplate(store_.get(), &key, PartName(id, 1), &t, 0, &error_), 0) << error_;
  ASSERT_EQ(MergeParts(store_.get(), &key, id, 2, &back, &error_), 0) << error_;
  EXPECT_EQ(back.generation, 1u);
  uint64_t generation = 0;
  EXPECT_EQ(GetTemplate(store_.get(), &key, id, &back, &generation, &error_), 0) << error_;
}

// What ends in the store are all parts and the one template that they make.
TEST_F(RealEtcd, AHundredWritersOfPartsEndWithOneTemplate) {
  constexpr uint32_t kNodes = 100;
  const std::vector<Template> parts = PartsOf(kNodes);
  const std::string id = parts[0].service_id;
  std::atomic<int> failed = 0;
  std::vector<std::thread> writers;
  for (uint32_t node = 0; node < kNodes; node++) {
    writers.emplace_back([&, node, store = Open()] {
      std::string error;
      Template part = parts[node];
      Template whole;
      const int put = PutTemplate(store.get(), nullptr, PartName(id, node), &part, 0, &error);
      const int merged = MergeParts(store.get(), nullptr, id, kNodes, &whole, &error);
      if (put != 0 || (merged != 0 && merged != -ENOENT)) failed++;
    });
  }
  for (std::thread& writer : writers) writer.join();
  EXPECT_EQ(failed, 0);
  ExpectMerged(store_.get(), parts);
}

// As an etcd is whose disk is full.
TEST_F(RealEtcd, WhatCannotBeWrittenCanBeRead) {
  const Bytes large = Random(2 << 20, 1);
  TemplateStore::Value value;
  ASSERT_EQ(store_->Put("abcd", large, 0, &error_), 0) << error_;
  server_->RefuseWrites(true);
  for (const Bytes& bytes : {Bytes{1}, large}) {
    EXPECT_EQ(store_->Put("abcd", bytes, 1, &error_), -EIO);
    EXPECT_TRUE(Has(error_, "space exceeded"));
    EXPECT_EQ(store_->Put("efgh", bytes, 0, &error_), -EIO);
  }
  EXPECT_EQ(store_->Get("abcd", &value, &error_), 0) << error_;
  EXPECT_EQ(value.bytes, large);
  EXPECT_EQ(store_->Get("efgh", &value, &error_), -ENOENT);
  server_->RefuseWrites(false);
  EXPECT_EQ(store_->Put("abcd", {2}, 1, &error_), 0) << error_;
}

TEST_F(RealEtcd, AByteThatIsWrongIsRefused) {
  const StoreKey key(std::string(32, 'k'));
  for (const StoreKey* sealed : {static_cast<const StoreKey*>(nullptr), &key}) {
    const std::string name = sealed != nullptr ? "sealed" : "plain";
    Template t = SampleTemplate();
    ASSERT_EQ(PutTemplate(store_.get(), sealed, name, &t, 0, &error_), 0) << error_;
    TemplateStore::Value good;
    ASSERT_EQ(store_->Get(name, &good, &error_), 0) << error_;
    for (uint64_t i = 0; i < 8; i++) {
      Bytes bad = good.bytes;
      bad[i * (bad.size() - 1) / 7] ^= 0xff;
      ASSERT_EQ(store_->Put(name, bad, 1 + i, &error_), 0) << error_;
      Template back;
      EXPECT_EQ(GetTemplate(store_.get(), sealed, name, &back, nullptr, &error_), -EBADMSG) << i;
    }
  }
}

// ------------------------------------------------------------------- broken servers

int GetFrom(const FakeHttp& server, uint32_t timeout_ms, std::string* error) {
  TemplateStore::Value value;
  const auto store = EtcdStore(server.url(), timeout_ms, error);
  return store->Get("abcd", &value, error);
}

TEST(BrokenEtcd, EveryAnswerIsAnErrorThatNamesTheStore) {
  using nlohmann::json;
  // {"generation":1,"bytes":99999999999,"chunks":999999,"id":"x"}
  const std::string huge =
      "eyJnZW5lcmF0aW9uIjoxLCJieXRlcyI6OTk5OTk5OTk5OTksImNodW5rcyI6OTk5OTk5LCJpZCI6IngifQo=";
  const auto kv = [](const std::string& value) {
    return FakeHttp::Reply(
        200, json{{"kvs", json::array({{{"mod_revision", "5"}, {"value", value}}})}}.dump());
  };
  const std::string answers[] = {
      "",                                                           // closes
      "HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n{\"kvs\":[",  // in the middle
      "nonsense\r\n\r\n",                                           //
      FakeHttp::Reply(200, "no json"),                              //
      FakeHttp::Reply(200, "[1,2]"),                                //
      FakeHttp::Reply(500, "{}"),                                   //
      FakeHttp::Reply(403, "{\"error\":\"permission denied\"}"),    //
      FakeHttp::Reply(302, "{}"),                                   //
      FakeHttp::Reply(200, std::string(9 << 20, ' ')),              // too long
      kv("!!!"),                                                    //
      kv("bm8gaGVhZA=="),                                           // "no head"
      kv(huge)};
  for (const std::string& answer : answers) {
    FakeHttp server([&](const std::string&) { return answer; });
    std::string error;
    EXPECT_LT(GetFrom(server, kLongMs, &error), 0) << answer.substr(0, 80);
    EXPECT_TRUE(Has(error, server.url()));
    EXPECT_EQ(error.find('\n'), std::string::npos) << error;
    EXPECT_LT(error.size(), 400u);
  }
}

TEST(BrokenEtcd, NobodyThere) {
  std::string refused;
  EXPECT_EQ(OpenStore("etcd:host:2379", &refused), nullptr);
  EXPECT_NE(OpenStore("etcd:http://host:2379/a/b", &refused), nullptr);
  std::string url;
  {
    FakeHttp server([](const std::string&) { return std::string(); });
    url = server.url();
  }
  std::string error;
  TemplateStore::Value value;
  EXPECT_LT(EtcdStore(url, kLongMs, &error)->Get("abcd", &value, &error), 0);
  EXPECT_TRUE(Has(error, url));
}

// One that answers nothing is given up, in all of a put's requests together.
TEST(BrokenEtcd, SlowerThanTheTimeLimit) {
  FakeHttp silent([](const std::string&) { return std::string(FakeHttp::kNever); });
  std::string error;
  EXPECT_EQ(GetFrom(silent, 100, &error), -ETIMEDOUT) << error;
  int asked = 0;
  FakeHttp stops([&](const std::string&) {
    return ++asked == 1 ? FakeHttp::Reply(200, "{}") : std::string(FakeHttp::kNever);
  });
  const auto store = EtcdStore(stops.url(), 2000, &error);
  EXPECT_EQ(store->Put("abcd", Bytes(5 << 20), 0, &error), -ETIMEDOUT) << error;
}

// Lost in the middle of a write of several requests: an error, and nothing names what was written.
TEST(BrokenEtcd, LostInMidWrite) {
  std::vector<std::string> puts;
  FakeHttp server([&](const std::string& request) {
    const std::string verb = request.substr(0, request.find(" HTTP"));
    if (verb.ends_with("/range")) return FakeHttp::Reply(200, "{}");
    puts.push_back(verb);
    return puts.size() <= 2 ? FakeHttp::Reply(200, "{}") : std::string();
  });
  std::string error;
  const auto store = EtcdStore(server.url(), kLongMs, &error);
  EXPECT_EQ(store->Put("abcd", Bytes(5 << 20), 0, &error), -EIO) << error;
  for (const std::string& put : puts) EXPECT_FALSE(Has(put, "/txn"));
}

}  // namespace
}  // namespace ppc::maio
