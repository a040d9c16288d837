// SPDX-License-Identifier: Apache-2.0
//
// Thousands of packages are looked up while the first of them are loaded.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "policies/maio/base/tuning.h"
#include "policies/maio/template/template.h"
#include "tests/policy/maio_fixture.h"

namespace ppc::test {
namespace {

constexpr uint32_t kFiles = maio::kLookUpsFirst + 2 * maio::kLookUpsNext + 100;
constexpr uint64_t kFileBytes = 5000;
constexpr int kPid = 90;

class MaioPackagesTest : public MaioTest {
 protected:
  // A template of all of them; those that exist are added to the host, by their place.
  void SetUp() override {
    MaioTest::SetUp();
    maio::Template t;
    t.service_id = kId;
    t.flags = maio::kComplete | maio::kTraced;
    maio::TemplateGroup group;
    group.id = maio::kCommonGroup;
    for (uint32_t f = 0; f < kFiles; f++) {
      maio::TemplateFile file;
      file.path = Name(f);
      file.size = kFileBytes;
      file.kind = maio::FileKind::kSmall;
      t.files.push_back(file);
      group.extents.push_back({f, 0, 2});
    }
    t.groups.push_back(std::move(group));
    std::string error;
    ASSERT_EQ(maio::Check(t), "");
    ASSERT_EQ(maio::Store(store_.path(), t, &error), 0) << error;
    host_.template_dir = store_.path();
    host_.caps |= PPC_CAN_MANY;
    host_.memory.limit = host_.memory.threshold = host_.memory.room = 1ull << 30;
  }
  void TearDown() override {
    host_.RunBackground();
    library_.ops()->ppc_exit();
    MaioTest::TearDown();
  }
  static std::string Name(uint32_t f) { return "lib/m" + std::to_string(f) + ".py"; }
  void Start() {
    ASSERT_EQ(library_.ops()->ppc_init(host_.context()), 0);
    const nlohmann::json start = {{"op", "service_start"}, {"service_id", kId}, {"service", 1}};
    (void)library_.ops()->ppc_control(start.dump().c_str());
    host_.RunBackground(1);
    ASSERT_EQ(Status()["mode"], "use") << Status();
  }
  nlohmann::json Status() {
    return nlohmann::json::parse(library_.ops()->ppc_control(R"({"op": "status"})"))["services"][0];
  }
  // The files that it asks for now, as it asks for them.
  std::vector<uint64_t> Asked() {
    std::vector<uint64_t> asked;
    ppc_plan_request request = {};
    request.service = 1;
    request.max_bytes = 1ull << 30;
    request.memory = &host_.memory;
    while (const prefetch_ios* list = library_.ops()->ppc_plan(&request)) {
      for (uint32_t i = 0; i < list->nr; i++) asked.push_back(list->ios[i].file);
    }
    return asked;
  }
  void Miss(uint64_t file) {
    miss_io event = host_.Event(PPC_MISS_READ, file, 0, kFileBytes, kPid);
    event.service = 1;
    (void)library_.ops()->ppc_prefetch(&event);
  }

  FakeHost host_;
  const PolicyLibrary library_{PolicyPath("maio")};
};

TEST_F(MaioPackagesTest, TheFirstAreLoadedBeforeTheLastAreLookedUp) {
  std::vector<uint64_t> files;
  // Numbered in another order than they are read in.
  for (uint32_t i = 0; i < kFiles; i++) host_.AddFile(Name(i * 7 % kFiles), kFileBytes);
  for (uint32_t f = 0; f < kFiles; f++) {
    for (const auto& [number, file] : host_.files) {
      if (file.path == Name(f)) files.push_back(number);
    }
  }
  Start();
  std::vector<uint64_t> asked = Asked();
  EXPECT_EQ(asked.size(), maio::kLookUpsFirst);
  host_.RunBackground(1);
  // What is known of one that is not looked up yet is no other file.
  Miss(files[kFiles - 1]);
  Miss(files[3]);
  EXPECT_TRUE(host_.native.empty());
  while (host_.RunBackground(1) != 0) {
    for (const uint64_t file : Asked()) asked.push_back(file);
  }
  EXPECT_EQ(asked, files);
  EXPECT_EQ(Status()["small_files"], kFiles);
  EXPECT_EQ(Status()["stale_files"], 0);
  // Each is found by its number.
  for (const uint64_t file : files) Miss(file);
  EXPECT_TRUE(host_.native.empty());
  Miss(host_.AddFile("lib/new.py", kFileBytes));
  EXPECT_EQ(host_.native.size(), 1u);
}

TEST_F(MaioPackagesTest, WhatIsGoneIsLeftOut) {
  uint32_t there = 0;
  for (uint32_t f = 0; f < kFiles; f++) {
    if (f % 10 == 9) continue;
    host_.AddFile(Name(f), kFileBytes);
    there++;
  }
  Start();
  host_.RunBackground();
  std::vector<uint64_t> asked = Asked();
  EXPECT_EQ(asked.size(), there);
  EXPECT_EQ(std::ranges::count(asked, 0ull), 0);
  EXPECT_EQ(Status()["small_files"], there);
  EXPECT_EQ(Status()["small_bytes"], there * kFileBytes);
  EXPECT_EQ(Status()["stale_files"], kFiles - there);
}

TEST_F(MaioPackagesTest, OfAServiceThatHasEndedNothingIsLookedUp) {
  for (uint32_t f = 0; f < kFiles; f++) host_.AddFile(Name(f), kFileBytes);
  Start();
  (void)library_.ops()->ppc_control(
      nlohmann::json({{"op", "service_stop"}, {"service_id", kId}}).dump().c_str());
  EXPECT_LE(host_.RunBackground(), 4u) << "the batch under way, and what it took given back";
  EXPECT_TRUE(Asked().empty());
}

}  // namespace
}  // namespace ppc::test
