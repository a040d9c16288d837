// SPDX-License-Identifier: Apache-2.0
//
// Templates that nodes share: a store that works, and stores that fail in every way.
#include <sys/stat.h>

#include <filesystem>
#include <fstream>

#include "policies/maio/template/store.h"
#include "tests/policy/maio_store_fixture.h"
#include "tests/unit/policies/fake_http.h"

namespace ppc::test {
namespace {

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

}  // namespace
}  // namespace ppc::test
