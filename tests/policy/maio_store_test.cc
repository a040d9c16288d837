// SPDX-License-Identifier: Apache-2.0
//
// Templates that nodes share: a store that works, stores that fail in every way, and services on
// several nodes.
#include <sys/stat.h>

#include <filesystem>
#include <fstream>

#include "policies/maio/template/store.h"
#include "tests/policy/maio_fixture.h"
#include "tests/unit/policies/fake_http.h"

namespace ppc::test {
namespace {

class MaioStoreTest : public MaioTest {
 protected:
  // A node with a directory of its own; one lives at a time.
  Simulator* Node(const std::string& name, const Setup& setup) {
    sim_.reset();
    sim_ = std::make_unique<Simulator>(PolicyPath("maio"), setup.options);
    sim_->template_dir = nodes_.path() + "/" + name;
    std::filesystem::create_directories(sim_->template_dir);
    sim_->SetConfig(setup.config);
    model_ = AddModel(sim_.get(), setup.shape);
    EXPECT_EQ(sim_->Init(), 0);
    return sim_.get();
  }
  nlohmann::json StatusOf(Simulator* sim) {
    return sim->Control({{"op", "status"}})["services"][0];
  }
  static size_t Warnings(const Simulator& sim) {
    return static_cast<size_t>(std::count_if(sim.log.begin(), sim.log.end(), [](const auto& line) {
      return line.find("the local templates are used") != std::string::npos;
    }));
  }
  // Records on a node; how the recording ended.
  std::string RecordOn(const std::string& name, const Setup& setup) {
    Simulator* sim = Node(name, setup);
    Start(sim, setup);
    sim->RunBackground();
    AddReaders(sim, setup);
    EXPECT_TRUE(sim->Run(60000));
    sim->RunFor(50);
    const nlohmann::json status = End(sim, "service_ready");
    sim->RunBackground();
    return status["reason"].get<std::string>();
  }
  std::string LocalOf(const std::string& name) {
    return maio::TemplatePath(nodes_.path() + "/" + name, kId);
  }

  TempDir nodes_;
  std::unique_ptr<Simulator> sim_;
};

TEST_F(MaioStoreTest, WhatOneNodeRecordsAnotherOneUses) {
  Setup setup;
  setup.config["store"] = "dir:" + store_.path();
  EXPECT_EQ(RecordOn("a", setup), "template stored");
  EXPECT_TRUE(std::filesystem::exists(maio::TemplatePath(store_.path(), kId)));
  Simulator* sim = Node("b", setup);
  EXPECT_EQ(sim->Control(StartMessage(setup))["mode"], "starting");
  sim->RunBackground(1);
  EXPECT_EQ(StatusOf(sim)["mode"], "record");  // nobody waits for the store
  EXPECT_GE(sim->RunBackground(), 1u);
  const nlohmann::json status = StatusOf(sim);
  EXPECT_EQ(status["mode"], "use") << status;
  EXPECT_NE(status["reason"].get<std::string>().find("from the store"), std::string::npos);
  EXPECT_TRUE(std::filesystem::exists(LocalOf("b")));
  AddReaders(sim, setup);
  EXPECT_TRUE(sim->Run(60000));
  EXPECT_EQ(sim->reread_bytes, 0u);
  EXPECT_EQ(End(sim, "service_ready")["unknown"], 0);
  // Gone from the store, and put there again by who has it.
  std::filesystem::remove_all(store_.path());
  sim = Node("b", setup);
  EXPECT_EQ(Start(sim, setup)["mode"], "use");
  sim->RunBackground();
  EXPECT_TRUE(std::filesystem::exists(maio::TemplatePath(store_.path(), kId)));
  EXPECT_EQ(Warnings(*sim), 0u);
}

TEST_F(MaioStoreTest, WhatWasRecordedGetsThereThoughTheServiceHasGone) {
  Setup setup;
  setup.config["store"] = "dir:" + store_.path();
  Simulator* sim = Node("a", setup);
  Start(sim, setup);
  AddReaders(sim, setup);
  EXPECT_TRUE(sim->Run(60000));
  sim->RunFor(50);
  sim->Control({{"op", "service_ready"}, {"service_id", kId}});
  // The next start forgets those that are idle.
  nlohmann::json other = StartMessage(setup);
  other["service_id"] = "another";
  other["service"] = 2;
  sim->Control(other);
  EXPECT_FALSE(std::filesystem::exists(maio::TemplatePath(store_.path(), kId)));
  sim->RunBackground();
  EXPECT_TRUE(std::filesystem::exists(maio::TemplatePath(store_.path(), kId)));
}

// What comes too late for this start is used by the next one.
TEST_F(MaioStoreTest, NothingChangesUnderAServiceThatReads) {
  Setup setup;
  setup.config["store"] = "dir:" + store_.path();
  RecordOn("a", setup);
  Simulator* sim = Node("b", setup);
  sim->Control(StartMessage(setup));
  sim->RunBackground(1);
  AddReaders(sim, setup);
  sim->RunFor(600);
  sim->RunBackground();
  EXPECT_EQ(StatusOf(sim)["mode"], "record");
  EXPECT_TRUE(std::filesystem::exists(LocalOf("b")));
}

// Lost, refusing, and what nobody may write: the service records and goes on, and there is one
// warning however often it is tried.
TEST_F(MaioStoreTest, AStoreThatFailsIsOneWarning) {
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
  std::ofstream(nodes_.path() + "/file") << "no directory";
  for (const std::string& store :
       {"etcd:" + gone, "etcd:" + refuses.url(), "etcd:" + breaks.url(),
        "dir:" + nodes_.path() + "/file", std::string("dir:/proc/none")}) {
    Setup setup;
    setup.config["store"] = store;
    std::filesystem::remove_all(nodes_.path() + "/a");
    EXPECT_EQ(RecordOn("a", setup), "template stored") << store;
    for (int again = 0; again < 3; again++) {
      EXPECT_EQ(Start(sim_.get(), setup)["mode"], "use") << store;
      sim_->RunBackground();
      End(sim_.get(), "service_stop");
    }
    EXPECT_EQ(Warnings(*sim_), 1u) << store;
  }
}

// A store that never answers is asked by no hook, and is given up.
TEST_F(MaioStoreTest, NoHookWaitsForASlowStore) {
  maio::FakeHttp silent([](const std::string&) { return std::string(maio::FakeHttp::kNever); });
  Setup setup;
  setup.config["store"] = "etcd:" + silent.url();
  Simulator* sim = Node("a", setup);
  sim->Control(StartMessage(setup));
  sim->RunBackground(1);
  EXPECT_EQ(StatusOf(sim)["mode"], "record");
  EXPECT_EQ(silent.requests(), 0);
  AddReaders(sim, setup);
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

TEST_F(MaioStoreTest, TemplatesWithoutTheKeyAreRefused) {
  if (geteuid() != 0) GTEST_SKIP() << "a key is a file of root's";
  const std::string key = nodes_.path() + "/key";
  std::ofstream(key) << std::string(32, 'k');
  ASSERT_EQ(chmod(key.c_str(), 0600), 0);
  Setup open;
  open.config["store"] = "dir:" + store_.path();
  RecordOn("a", open);
  Setup keyed = open;
  keyed.config["store_key"] = key;
  Simulator* sim = Node("b", keyed);
  EXPECT_EQ(Start(sim, keyed)["mode"], "record");
  sim->RunBackground();
  EXPECT_EQ(StatusOf(sim)["mode"], "record");
  EXPECT_EQ(Warnings(*sim), 1u);
  EXPECT_FALSE(std::filesystem::exists(LocalOf("b")));
  // Its own recording replaces the one that it does not trust.
  AddReaders(sim, keyed);
  ASSERT_TRUE(sim->Run(60000));
  sim->RunFor(50);
  EXPECT_EQ(End(sim, "service_ready")["reason"], "template stored");
  sim->RunBackground();
  sim = Node("c", keyed);
  Start(sim, keyed);
  sim->RunBackground();
  EXPECT_EQ(StatusOf(sim)["mode"], "use");
  // A key that others may read is none.
  ASSERT_EQ(chmod(key.c_str(), 0644), 0);
  sim_.reset();
  Simulator refused(PolicyPath("maio"), keyed.options);
  refused.template_dir = nodes_.path();
  refused.SetConfig(keyed.config);
  EXPECT_NE(refused.Init(), 0);
}

// Who has another key cannot tell whether what lies there is whole.
TEST_F(MaioStoreTest, ARecordingThatWasCutShortReplacesNothingOfAnotherKey) {
  if (geteuid() != 0) GTEST_SKIP() << "a key is a file of root's";
  Setup setup;
  setup.config["store"] = "dir:" + store_.path();
  for (const char* name : {"/key", "/other"}) {
    const std::string path = nodes_.path() + name;
    std::ofstream(path) << std::string(32, name[1]);
    ASSERT_EQ(chmod(path.c_str(), 0600), 0);
  }
  setup.config["store_key"] = nodes_.path() + "/key";
  RecordOn("a", setup);
  const std::unique_ptr<maio::TemplateStore> store = maio::DirectoryStore(store_.path());
  std::string error;
  maio::TemplateStore::Value before;
  ASSERT_EQ(store->Get(kId, &before, &error), 0) << error;
  setup.config["store_key"] = nodes_.path() + "/other";
  Simulator* sim = Node("b", setup);
  EXPECT_EQ(Start(sim, setup)["mode"], "record");
  AddReaders(sim, setup);
  sim->RunFor(600);
  EXPECT_EQ(End(sim, "service_stop")["mode"], "record");
  sim->RunBackground();
  EXPECT_TRUE(std::filesystem::exists(LocalOf("b")));
  EXPECT_EQ(Warnings(*sim), 1u);
  maio::TemplateStore::Value after;
  ASSERT_EQ(store->Get(kId, &after, &error), 0) << error;
  EXPECT_EQ(after.bytes, before.bytes);
}

// ------------------------------------------------------------------------- nodes

class MaioNodesTest : public MaioStoreTest {
 protected:
  // Two nodes with two of four workers each and one directory, as on NFS.
  Setup Large() {
    Setup setup;
    setup.shape.workers = 4;
    setup.shape.shards = 8;
    setup.shape.shard_bytes = 90ull << 20;  // each begins with a tensor of all workers
    return setup;
  }
  Simulator* OnNode(const Setup& setup) {
    sim_.reset();
    sim_ = Make(setup);
    return sim_.get();
  }
  nlohmann::json StartOn(Simulator* sim, uint32_t node, int first_worker = -1) {
    nlohmann::json message = {
        {"op", "service_start"}, {"service_id", kId}, {"service", 1}, {"workers", 2},
        {"xpus", {0, 1}},        {"node", node},      {"nodes", 2}};
    if (first_worker >= 0) message["first_worker"] = first_worker;
    return Settle(sim, message);
  }
  void RecordNode(uint32_t node, std::vector<uint32_t> slices) {
    Setup setup = Large();
    setup.order = std::move(slices);
    Simulator* sim = OnNode(setup);
    EXPECT_EQ(StartOn(sim, node)["mode"], "record");
    AddReaders(sim, setup);
    ASSERT_TRUE(sim->Run(600000));
    sim->RunFor(50);
    EXPECT_EQ(End(sim, "service_ready")["reason"], "template stored");
    sim->RunBackground();
  }
  // Share of this node's bytes that its readers had to load for themselves.
  double DemandOf(uint32_t node, std::vector<uint32_t> slices, int first_worker = -1) {
    Setup setup = Large();
    setup.order = std::move(slices);
    Simulator* sim = OnNode(setup);
    const nlohmann::json started = StartOn(sim, node, first_worker);
    EXPECT_EQ(started["mode"], "use") << started;
    EXPECT_LE(started["groups"].size(), 3u);  // its own two, and what is no worker's
    sim->RunBackground();
    AddReaders(sim, setup);
    for (int again = 0; again < 60000 && !sim->Run(10); again++) sim->RunBackground();
    sim->RunFor(300);
    status_ = End(sim, "service_ready");
    EXPECT_EQ(status_["mode"], "use") << status_;
    uint64_t total = 0;
    uint64_t consumed = 0;
    for (const nlohmann::json& group : status_["groups"]) {
      total += group["total"].get<uint64_t>();
      consumed += group["consumed"].get<uint64_t>();
    }
    unmatched_ = 1 - static_cast<double>(consumed) / static_cast<double>(total);
    return static_cast<double>(sim->demand_bytes) / static_cast<double>(total);
  }
  double unmatched_ = 1;
};

TEST_F(MaioNodesTest, PartsBecomeOneTemplateOfWhichEachNodeTakesItsOwn) {
  RecordNode(0, {0, 1});
  EXPECT_FALSE(std::filesystem::exists(maio::TemplatePath(store_.path(), kId)));
  RecordNode(1, {2, 3});
  maio::Template whole;
  std::string error;
  ASSERT_EQ(maio::Load(maio::TemplatePath(store_.path(), kId), &whole, &error), 0) << error;
  EXPECT_TRUE(whole.flags & maio::kMerged);
  std::vector<std::pair<uint32_t, uint32_t>> groups;
  for (const maio::TemplateGroup& group : whole.groups) {
    if (group.id != maio::kCommonGroup) groups.emplace_back(group.node, group.id);
  }
  EXPECT_EQ(groups, (std::vector<std::pair<uint32_t, uint32_t>>{{0, 0}, {0, 1}, {1, 2}, {1, 3}}));
  EXPECT_LE(DemandOf(0, {0, 1}), 0.05);
  EXPECT_LE(unmatched_, 0.02);
  EXPECT_LE(DemandOf(1, {2, 3}), 0.05);
  EXPECT_LE(unmatched_, 0.02);
}

// The node that was the second is the first now: told by its workers' numbers.
TEST_F(MaioNodesTest, NodesThatChangedPlacesAreToldByTheirWorkers) {
  RecordNode(0, {0, 1});
  RecordNode(1, {2, 3});
  EXPECT_LE(DemandOf(0, {2, 3}, 2), 0.05);
  EXPECT_LE(unmatched_, 0.02);
}

// The same, told by nobody: by what they read.
TEST_F(MaioNodesTest, NodesThatChangedPlacesAreFoundByTheirReads) {
  RecordNode(0, {0, 1});
  RecordNode(1, {2, 3});
  DemandOf(0, {2, 3});
  EXPECT_NE(status_["reason"].get<std::string>().find("another node"), std::string::npos)
      << status_;
  EXPECT_LE(unmatched_, 0.02) << status_;
}

// The store was gone when the part was recorded, and when it was recorded again.
TEST_F(MaioNodesTest, APartThatCouldNotBePutIsPutLater) {
  const std::string shared = nodes_.path() + "/shared";
  Setup setup = Large();
  setup.config["store"] = "dir:" + shared;
  setup.order = {0, 1};
  uint64_t recorded_ns = 0;
  for (const char* record : {"auto", "always"}) {
    setup.config["record"] = record;
    if (std::filesystem::exists(shared)) std::filesystem::rename(shared, shared + ".away");
    std::ofstream(shared) << "no directory";
    Simulator* sim = Node("a", setup);
    StartOn(sim, 0);
    AddReaders(sim, setup);
    ASSERT_TRUE(sim->Run(600000));
    sim->RunFor(50);
    End(sim, "service_ready");
    sim->RunBackground();
    EXPECT_EQ(Warnings(*sim), 1u);
    std::filesystem::remove(shared);
    if (std::filesystem::exists(shared + ".away"))
      std::filesystem::rename(shared + ".away", shared);
    setup.config["record"] = "auto";
    sim = Node("a", setup);
    EXPECT_EQ(StartOn(sim, 0)["mode"], "use");
    sim->RunBackground();
    EXPECT_EQ(Warnings(*sim), 0u);
    maio::Template part;
    std::string error;
    ASSERT_EQ(maio::Load(maio::PartPath(shared, kId, 0), &part, &error), 0) << error;
    EXPECT_GT(part.created_ns, recorded_ns);
    recorded_ns = part.created_ns;
  }
}

// Another node's part says nothing of what this one reads.
TEST_F(MaioNodesTest, ANodeWithoutAPartRecords) {
  RecordNode(0, {0, 1});
  Simulator* sim = OnNode(Large());
  EXPECT_EQ(StartOn(sim, 1)["mode"], "record");
  sim->RunBackground();
  EXPECT_EQ(StatusOf(sim)["mode"], "record");
  sim = OnNode(Large());
  EXPECT_EQ(StartOn(sim, 0)["mode"], "use");  // its own is there, the whole is not
}

TEST_F(MaioNodesTest, WrongNumbersAreRefused) {
  Simulator* sim = OnNode(Large());
  EXPECT_TRUE(StartOn(sim, 2).contains("error"));
  EXPECT_TRUE(StartOn(sim, 0, 62).contains("error"));
  EXPECT_TRUE(
      sim->Control({{"op", "service_start"}, {"service_id", kId}, {"nodes", 2}}).contains("error"));
}

}  // namespace
}  // namespace ppc::test
