// SPDX-License-Identifier: Apache-2.0
// Templates that are large, were recorded below another directory, or lie in a store of several
// nodes.
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <ctime>
#include <filesystem>
#include <fstream>
#include <string>

#include "policies/maio/template/store.h"
#include "policies/maio/template/template.h"
#include "tests/policy/maio_fixture.h"
#include "tests/policy/maio_store_fixture.h"

namespace ppc::test {
namespace {

// A template that was recorded when the directory above the model was registered, or the model's
// own.

constexpr uint64_t kBytes = 8 << 20;

class MaioRenameTest : public MaioTest {
 protected:
  // Of a model in `recorded`, which is in `there` now ("" or "q/"); what the service does.
  std::string ModeOf(const std::string& recorded, const std::string& there, uint64_t bytes = kBytes,
                     const std::string& beside = "") {
    maio::Template t;
    t.service_id = kId;
    t.flags = maio::kComplete | maio::kTraced;
    AddFile(&t, recorded + "config.json", 4096, maio::FileKind::kSmall);
    AddFile(&t, recorded + "model.safetensors", kBytes, maio::FileKind::kSafetensors);
    if (!beside.empty()) AddFile(&t, beside, 4096, maio::FileKind::kSmall);
    t.groups.emplace_back().id = 0;
    t.groups.back().extents.push_back({1, 0, kBytes / kPage});
    Store(t);
    HostedPolicy host(PolicyPath("maio"));
    host.template_dir = store_.Root();
    host.AddFile(there + "config.json", 4096);
    host.AddFile(there + "model.safetensors", bytes);
    EXPECT_EQ(host.Init(), 0);
    return Settle(&host, {{"op", "service_start"},
                          {"service_id", kId},
                          {"service", 1},
                          {"params", {{"path", there}}}})["mode"];
  }
  static void AddFile(maio::Template* t, const std::string& path, uint64_t bytes,
                      maio::FileKind kind) {
    maio::TemplateFile& file = t->files.emplace_back();
    file.path = path;
    file.size = bytes;
    file.mtime_ns = 1;
    file.kind = kind;
  }
};

TEST_F(MaioRenameTest, ATemplateIsThatOfTheSameFilesBelowAnotherDirectory) {
  const std::pair<const char*, const char*> same[] = {
      {"q/", ""}, {"", "q/"}, {"a/b/q/", "q/"}, {"q/", "q/"}};
  for (const auto& [recorded, there] : same)
    EXPECT_EQ(ModeOf(recorded, there), "use") << recorded << " is " << there;
  EXPECT_EQ(ModeOf("q/", "", 2 * kBytes), "record") << "another model of that name";
  EXPECT_EQ(ModeOf("q/", "", kBytes, "config.json"), "record") << "no two files get one name";
}

// A template of the largest kind is cut into tables in the background, not between two events.

double CpuSeconds() {
  timespec now = {};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) / 1e9;
}

TEST_F(MaioTest, EventsDoNotWaitForTheTablesOfALargeTemplate) {
  constexpr uint32_t kWorkers = 16, kFiles = 32, kTensors = 1000;
  constexpr uint64_t kFileBytes = 4ull << 30;
  HostedPolicy host(PolicyPath("maio"));
  host.template_dir = store_.Root();
  maio::Template t;
  t.service_id = kId;
  t.flags = maio::kComplete | maio::kTraced;
  for (uint32_t f = 0; f < kFiles; f++) {
    maio::TemplateFile file;
    file.path = "model-" + std::to_string(f) + ".safetensors";
    file.size = kFileBytes;
    file.mtime_ns = 1;
    file.kind = maio::FileKind::kSafetensors;
    t.files.push_back(file);
    host.AddFile(file.path, file.size);
  }
  // Each tensor's slices, of sizes that fit no grid.
  for (uint32_t w = 0; w < kWorkers; w++) {
    maio::TemplateGroup group;
    group.id = w;
    for (uint32_t f = 0; f < kFiles; f++) {
      for (uint32_t i = 0; i < kTensors; i++)
        group.extents.push_back({f, i * uint64_t{1024} + w * 61, 61});
    }
    t.groups.push_back(std::move(group));
  }
  Store(t);

  ASSERT_EQ(host.Init(), 0);
  const nlohmann::json start = {
      {"op", "service_start"}, {"service_id", kId}, {"service", 1}, {"workers", kWorkers}};
  double between = 0, beside = 0;
  const double began = CpuSeconds();
  const nlohmann::json reply = host.Control(start);
  ASSERT_FALSE(reply.is_null());
  between += CpuSeconds() - began;
  ASSERT_FALSE(host.background.empty());
  const FakeHost::BackgroundWork next = host.background.front();
  host.background.pop_front();
  const double works = CpuSeconds();
  next.work(next.arg);
  beside += CpuSeconds() - works;
  const double tells = CpuSeconds();
  next.done(next.arg);
  between += CpuSeconds() - tells;
  EXPECT_EQ(StatusOf(&host)["mode"], "use");
  RecordProperty("share_between_events", std::to_string(between / (between + beside)));
  EXPECT_LT(between, beside / 5) << "seconds of CPU between two events, and beside them";
}

TEST_F(MaioStoreTest, WhatOneNodeRecordsAnotherOneUses) {
  setup_.config["store"] = "dir:" + store_.Root();
  EXPECT_EQ(RecordOn("a", setup_), "template stored");
  EXPECT_TRUE(IsStored());
  Simulator* sim = Node("b", setup_);
  EXPECT_EQ(sim->Control(StartMessage(setup_))["mode"], "starting");
  sim->RunBackground(1);
  EXPECT_EQ(StatusOf(sim)["mode"], "record");  // nobody waits for the store
  EXPECT_GE(sim->RunBackground(), 1u);
  const nlohmann::json status = StatusOf(sim);
  EXPECT_EQ(status["mode"], "use") << status;
  EXPECT_TRUE(Has(status["reason"].get<std::string>(), "from the store"));
  EXPECT_TRUE(std::filesystem::exists(LocalOf("b")));
  AddReaders(sim, setup_);
  EXPECT_TRUE(sim->Run(60000));
  EXPECT_EQ(sim->reread_bytes, 0u);
  EXPECT_EQ(End(sim, "service_ready")["unknown"], 0);
  // Gone from the store, and put there again by who has it.
  std::filesystem::remove_all(store_.Root());
  sim = Node("b", setup_);
  EXPECT_EQ(Start(sim, setup_)["mode"], "use");
  sim->RunBackground();
  EXPECT_TRUE(IsStored());
  EXPECT_EQ(Warnings(*sim), 0u);
}

TEST_F(MaioStoreTest, WhatWasRecordedGetsThereThoughTheServiceHasGone) {
  setup_.config["store"] = "dir:" + store_.Root();
  Simulator* sim = Node("a", setup_);
  Start(sim, setup_);
  AddReaders(sim, setup_);
  EXPECT_TRUE(sim->Run(60000));
  sim->RunFor(50);
  sim->Control({{"op", "service_ready"}, {"service_id", kId}});
  // The next start forgets those that are idle.
  nlohmann::json other = StartMessage(setup_);
  other["service_id"] = "another";
  other["service"] = 2;
  sim->Control(other);
  EXPECT_FALSE(IsStored());
  sim->RunBackground();
  EXPECT_TRUE(IsStored());
}

// What comes too late for this start is used by the next one.
TEST_F(MaioStoreTest, NothingChangesUnderAServiceThatReads) {
  setup_.config["store"] = "dir:" + store_.Root();
  RecordOn("a", setup_);
  Simulator* sim = Node("b", setup_);
  sim->Control(StartMessage(setup_));
  sim->RunBackground(1);
  AddReaders(sim, setup_);
  sim->RunFor(600);
  sim->RunBackground();
  EXPECT_EQ(StatusOf(sim)["mode"], "record");
  EXPECT_TRUE(std::filesystem::exists(LocalOf("b")));
}

// The service records and goes on, and there is one warning however often it is tried; of an etcd
// in extras/etcd/tests.
TEST_F(MaioStoreTest, AStoreThatFailsIsOneWarning) {
  std::ofstream(nodes_.Root() + "/file") << "no directory";
  ExpectOneWarning("dir:" + nodes_.Root() + "/file");
  ExpectOneWarning("dir:/proc/none");
}

TEST_F(MaioStoreTest, TemplatesWithoutTheKeyAreRefused) {
  if (geteuid() != 0) GTEST_SKIP() << "a key is a file of root's";
  const std::string key = nodes_.Root() + "/key";
  std::ofstream(key) << std::string(32, 'k');
  ASSERT_EQ(chmod(key.c_str(), 0600), 0);
  Setup open;
  open.config["store"] = "dir:" + store_.Root();
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
  EXPECT_EQ(Finish(sim)["reason"], "template stored");
  sim->RunBackground();
  sim = Node("c", keyed);
  Start(sim, keyed);
  sim->RunBackground();
  EXPECT_EQ(StatusOf(sim)["mode"], "use");
  // A key that others may read is none.
  ASSERT_EQ(chmod(key.c_str(), 0644), 0);
  sim_.reset();
  Simulator refused(PolicyPath("maio"), keyed.options);
  refused.template_dir = nodes_.Root();
  refused.SetConfig(keyed.config);
  EXPECT_NE(refused.Init(), 0);
}

// Who has another key cannot tell whether what lies there is whole.
TEST_F(MaioStoreTest, ARecordingThatWasCutShortReplacesNothingOfAnotherKey) {
  if (geteuid() != 0) GTEST_SKIP() << "a key is a file of root's";
  setup_.config["store"] = "dir:" + store_.Root();
  for (const char* name : {"/key", "/other"}) {
    const std::string path = nodes_.Root() + name;
    std::ofstream(path) << std::string(32, name[1]);
    ASSERT_EQ(chmod(path.c_str(), 0600), 0);
  }
  setup_.config["store_key"] = nodes_.Root() + "/key";
  RecordOn("a", setup_);
  const std::unique_ptr<maio::TemplateStore> store = maio::DirectoryStore(store_.Root());
  std::string error;
  maio::TemplateStore::Value before;
  ASSERT_EQ(store->Get(kId, &before, &error), 0) << error;
  setup_.config["store_key"] = nodes_.Root() + "/other";
  Simulator* sim = Node("b", setup_);
  EXPECT_EQ(Start(sim, setup_)["mode"], "record");
  AddReaders(sim, setup_);
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
