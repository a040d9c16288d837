// SPDX-License-Identifier: Apache-2.0
// Nodes' published states and the choice by them: as text, from etcd, as last known.
#include <gtest/gtest.h>

#include <chrono>
#include <filesystem>
#include <fstream>

#include "extras/etcd/etcd.h"
#include "extras/etcd/tests/fake_http.h"
#include "extras/placement/cluster.h"
#include "tests/unit/has.h"
#include "tests/unit/temp_tree.h"

namespace ppc::ctl {
namespace {

using maio::FakeHttp;

constexpr uint64_t kGb = 1'000'000'000;

NodeState Node(const std::string& name, uint64_t resident) {
  NodeState node{.name = name, .memory = 100 * kGb, .free = 90 * kGb};
  node.disk_rates["/models"] = 3 * kGb;
  node.models.push_back({.name = "org/m",
                         .path = "/models/m",
                         .directory = "/models",
                         .bytes = 15 * kGb,
                         .resident = resident,
                         .by_node = {{0, resident}},
                         .has_template = true});
  node.models.push_back({.name = "n", .path = "/models/n", .directory = "/models", .bytes = kGb});
  node.starts.push_back({"svc1", "/other", 3 * kGb});
  return node;
}

std::string EtcdAnswer(const std::vector<std::pair<std::string, std::string>>& values) {
  Json list = Json::array();
  for (const auto& [key, value] : values)
    list.push_back({{"key", Base64(key)}, {"value", Base64(value)}});
  return FakeHttp::Reply(200, DumpJson({{"header", {{"revision", "1"}}}, {"kvs", list}}));
}

TEST(PlaceTest, ANodeIsTheSameBehindItsText) {
  const NodeState node = Node("a", 5 * kGb);
  const Result<Json> json = ParseJsonObject(DumpJson(ToJson(node)), "node");
  EXPECT_EQ(Value(NodeFromJson(*json, "node")), node);
}

TEST(PlaceTest, ALittleMemoryIsNoNews) {
  const NodeState told = Node("a", kGb);
  NodeState now = told;
  now.free -= kGb;
  now.memory += kGb;
  EXPECT_FALSE(IsNews(told, now));
  now.free = told.free - 4 * kGb;
  EXPECT_TRUE(IsNews(told, now));
  for (uint64_t resident : {kGb - 4096, kGb + 4096}) EXPECT_TRUE(IsNews(told, Node("a", resident)));
  now = told;
  now.starts.clear();
  EXPECT_TRUE(IsNews(told, now));
}

TEST(PlaceTest, NonsenseIsOneLineThatNamesIt) {
  for (const char* text :
       {"[]", "{}", R"({"node":1})", R"({"node":"a","schema":2})",
        R"({"node":"a","memory_bytes":-1})", R"({"node":"a","models":{}})",
        R"({"node":"a","models":[1]})", R"({"node":"a","models":[{"bytes":1}]})",
        R"({"node":"a","models":[{"model":"m","bytes":"x"}]})",
        R"({"node":"a","models":[{"model":"m","template":1}]})",
        R"({"node":"a","models":[{"model":"m","nodes":{"x":1}}]})",
        R"({"node":"a","models":[{"model":"m","nodes":[1]}]})", R"({"node":"a","disk_rates":[1]})",
        R"({"node":"a","disk_rates":{"/d":-3}})", R"({"node":"a","starts":"no"})",
        R"({"node":"a","starts":[{"left":{}}]})"}) {
    const Result<NodeState> node = NodeFromJson(*ParseJson(text, "text"), "what");
    ASSERT_FALSE(node.ok()) << text;
    EXPECT_TRUE(node.error().message.starts_with("what: ")) << node.error().message;
    EXPECT_EQ(node.error().message.find('\n'), std::string::npos);
  }
}

TEST(PlaceTest, AModelIsFoundByNamePathOrItsPathsEnd) {
  const NodeState node = Node("a", 0);
  EXPECT_EQ(FindModelOf(node, "org/m"), &node.models[0]);
  EXPECT_EQ(FindModelOf(node, "/models/m"), &node.models[0]);
  EXPECT_EQ(FindModelOf(node, "/elsewhere/n/"), &node.models[1]);
  EXPECT_EQ(FindModelOf(node, "m"), nullptr);
  EXPECT_EQ(FindModelOf(node, ""), nullptr);
}

TEST(PlaceTest, WhatAnotherStartReadsCountsAndTheModelsOwnDoesNot) {
  NodeState node = Node("a", 0);
  EXPECT_EQ(PlaceNodeOf(node, "org/m").busy_starts, 1u);
  EXPECT_EQ(PlaceNodeOf(node, "org/m").busy_bytes, 3 * kGb);
  // With two models in a directory it is unknown which one starts.
  node.starts = {{"svc2", "/models", kGb}};
  EXPECT_EQ(PlaceNodeOf(node, "org/m").busy_starts, 1u);
  node.models.pop_back();
  EXPECT_EQ(PlaceNodeOf(node, "org/m").busy_starts, 0u);
  // Bytes of some nodes only say too little.
  node.starts = {{"svc3", "/other", 0}, {"svc4", "/other", kGb}};
  EXPECT_EQ(PlaceNodeOf(node, "org/m").busy_bytes, 0u);
  EXPECT_EQ(PlaceNodeOf(node, "none").model_bytes, 0u);
}

TEST(PlaceTest, NodesComeFromEtcdAndWhatIsNoneIsToldAndLeftOut) {
  const std::string good = DumpJson(ToJson(Node("a", kGb)));
  const FakeHttp etcd([&](const std::string&) {
    return EtcdAnswer({{"/ppc/nodes/a", good},
                       {"/ppc/nodes/b", "hello"},
                       {"/ppc/nodes/c", good},
                       {"/else/d", good}});
  });
  const Cluster cluster = Value(ClusterInEtcd(*ReadEtcdPlace(etcd.url()), 2000));
  ASSERT_EQ(cluster.nodes.size(), 1u);
  EXPECT_EQ(cluster.nodes[0], Node("a", kGb));
  ASSERT_EQ(cluster.refused.size(), 3u);
  EXPECT_NE(cluster.refused[0].find("/ppc/nodes/b"), std::string::npos);
  EXPECT_NE(cluster.refused[1].find("of another node"), std::string::npos);
}

TEST(PlaceTest, AServerThatIsNoEtcdIsAnError) {
  for (const std::string& answer :
       {FakeHttp::Reply(200, "hello"), FakeHttp::Reply(200, "{}"), FakeHttp::Reply(404, "{}"),
        FakeHttp::Reply(200, R"({"header":{},"kvs":7})"), std::string()}) {
    const FakeHttp server([&](const std::string&) { return answer; });
    const Result<Cluster> cluster = ClusterInEtcd(*ReadEtcdPlace(server.url()), 2000);
    ASSERT_FALSE(cluster.ok()) << answer;
    EXPECT_NE(cluster.error().message.find(server.url()), std::string::npos);
  }
  const FakeHttp server([](const std::string&) { return std::string(FakeHttp::kNever); });
  EXPECT_EQ(ClusterInEtcd(*ReadEtcdPlace(server.url()), 100).error().code, ETIMEDOUT);
}

TEST(PlaceTest, WhatWasKnownIsKeptWithItsAge) {
  const TempTree tree;
  const std::string file = tree.Path("/nodes.json");
  EXPECT_EQ(Recall(file, 0).error().code, ENOENT);
  Cluster cluster;
  cluster.nodes = {Node("a", 1), Node("b", 2)};
  ASSERT_TRUE(Remember(file, cluster).ok());
  // time() lags behind a file's time by up to a tick.
  const auto now = std::chrono::system_clock::to_time_t(std::chrono::system_clock::now());
  const Cluster back = Value(Recall(file, static_cast<uint64_t>(now) + 100));
  EXPECT_EQ(back.nodes, cluster.nodes);
  EXPECT_GE(back.age_s, 100u);
  std::ofstream(file) << "{\"nodes\": [3";
  EXPECT_FALSE(Recall(file, 0).ok());
}

TEST(PlaceTest, AddressesAndNames) {
  EXPECT_EQ(ReadEtcdPlace("etcd:http://h:1/x")->prefix, "/x/");
  EXPECT_EQ(ReadEtcdPlace("http://h:1")->prefix, "/ppc/");
  EXPECT_FALSE(ReadEtcdPlace("h:1").ok());
  const EtcdPlace place{"http://h:1", "/ppc/"};
  EXPECT_EQ(*NodeKey(place, "a"), "/ppc/nodes/a");
  for (const std::string& name : {std::string(), std::string("a/b"), std::string(256, 'a')})
    EXPECT_FALSE(NodeKey(place, name).ok());
}

}  // namespace
}  // namespace ppc::ctl
