// SPDX-License-Identifier: Apache-2.0
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
constexpr const char* kModel = "model.safetensors";
constexpr uint64_t kModelBytes = 8 << 20;

class MaioPackagesTest : public MaioTest {
 protected:
  // A template of all of them; those that exist are added to the host, by their place.
  void SetUp() override {
    MaioTest::SetUp();
    maio::Template& t = template_;
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
    maio::TemplateFile model;
    model.path = kModel;
    model.size = kModelBytes;
    model.mtime_ns = 1;
    model.kind = maio::FileKind::kSafetensors;
    t.files.push_back(model);
    t.groups.push_back({});
    t.groups.back().id = 0;
    t.groups.back().extents.push_back({kFiles, 0, kModelBytes / kPage});
    StoreIn(store_.Root());
    host_.template_dir = store_.Root();
    host_.caps |= PPC_CAN_MANY;
    host_.memory.limit = host_.memory.threshold = host_.memory.room = 1ull << 30;
  }
  void StoreIn(const std::string& directory) {
    std::string error;
    ASSERT_EQ(maio::Check(template_), "");
    ASSERT_EQ(maio::Store(directory, template_, &error), 0) << error;
  }
  static std::string Name(uint32_t f) { return "lib/m" + std::to_string(f) + ".py"; }
  void Start() {
    model_ = host_.AddFile(kModel, kModelBytes);
    ASSERT_EQ(host_.Init(), 0);
    (void)host_.Control({{"op", "service_start"}, {"service_id", kId}, {"service", 1}});
    host_.RunBackground(1);
    ASSERT_EQ(Status()["mode"], "use") << Status();
  }
  void StartWithAll() {
    for (uint32_t f = 0; f < kFiles; f++) host_.AddFile(Name(f), kFileBytes);
    Start();
  }
  nlohmann::json Status() { return StatusOf(&host_); }
  // The files that it asks for now, as it asks for them.
  std::vector<uint64_t> Asked() {
    std::vector<uint64_t> asked;
    ppc_plan_request request = {};
    request.service = 1;
    request.max_bytes = 1ull << 30;
    request.memory = &host_.memory;
    while (const prefetch_ios* list = host_.ops().ppc_plan(&request)) {
      for (uint32_t i = 0; i < list->nr; i++) {
        if (list->ios[i].file != model_) asked.push_back(list->ios[i].file);
        asked_of_model_ += list->ios[i].file == model_ ? list->ios[i].size : 0;
      }
    }
    return asked;
  }
  // Files that are the kernel's to read ahead.
  int64_t Native() {
    return std::ranges::count_if(host_.native, [](const auto& file) { return file.second != 0; });
  }
  void Miss(uint64_t file) {
    miss_io event = host_.Event(PPC_MISS_READ, file, 0, kFileBytes, kPid);
    event.service = 1;
    (void)host_.ops().ppc_prefetch(&event);
  }

  void End(const char* op) { (void)host_.Control({{"op", op}, {"service_id", kId}}); }
  void EndsLooking(const char* op) {
    StartWithAll();
    End(op);
    // Ready without having read any of the model: the template loses it.
    const size_t works = std::string(op) == "service_ready" ? 3 : 2;
    EXPECT_EQ(host_.RunBackground(), works) << "the lot under way, and memory given back";
    EXPECT_TRUE(Asked().empty());
  }
  maio::Template template_;
  HostedPolicy host_{PolicyPath("maio")};
  uint64_t model_ = 0;
  uint64_t asked_of_model_ = 0;  // bytes
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
  EXPECT_EQ(Native(), 0);
  EXPECT_EQ(asked_of_model_, 0u) << "what programs read before the model comes before it";
  while (host_.RunBackground(1) != 0) {
    for (const uint64_t file : Asked()) asked.push_back(file);
  }
  EXPECT_EQ(asked, files);
  EXPECT_EQ(asked_of_model_, kModelBytes);
  EXPECT_EQ(Status()["small_files"], kFiles);
  EXPECT_EQ(Status()["stale_files"], 0);
  // Each is found by its number.
  for (const uint64_t file : files) Miss(file);
  EXPECT_EQ(Native(), 0);
  Miss(host_.AddFile("lib/new.py", kFileBytes));
  EXPECT_EQ(Native(), 1);
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

TEST_F(MaioPackagesTest, TheModelDoesNotWaitForADiskThatHangs) {
  StartWithAll();
  (void)Asked();
  host_.now_ns += maio::kLookUpsNs - 1;
  (void)Asked();
  EXPECT_EQ(asked_of_model_, 0u);
  host_.now_ns += 1;
  (void)Asked();
  EXPECT_EQ(asked_of_model_, kModelBytes);
}

TEST_F(MaioPackagesTest, AnotherModelIsToldFromPackagesThatAreNotLookedUpYet) {
  StartWithAll();
  const uint64_t draft = host_.AddFile("draft.safetensors", kModelBytes);
  miss_io event = host_.Event(PPC_MISS_READ, draft, 0, kPage, kPid);
  event.service = 1;
  event.path = "draft.safetensors";
  (void)host_.ops().ppc_prefetch(&event);
  EXPECT_EQ(host_.native[draft], 1);
}

TEST_F(MaioPackagesTest, WhatHasAFingerprintIsJudgedAtOnce) {
  maio::TemplateFile file;
  file.path = "config.json";
  file.size = kFileBytes;
  file.kind = maio::FileKind::kSmall;
  file.fingerprint.fill(1);
  template_.groups[0].extents.push_back({static_cast<uint32_t>(template_.files.size()), 0, 2});
  template_.files.push_back(file);
  StoreIn(store_.Root());
  for (uint32_t f = 0; f < kFiles; f++) host_.AddFile(Name(f), kFileBytes);
  host_.AddFile(file.path, kFileBytes + 1);
  Start();
  EXPECT_EQ(Status()["stale_files"], 1);
  host_.RunBackground();
  EXPECT_EQ(Status()["stale_files"], 1);
}

// Before a store that hangs nothing waits that a start needs.
TEST_F(MaioPackagesTest, TheStoreIsAskedBehindTheLookUps) {
  const TempTree store;
  const uint64_t known_ns = template_.created_ns;
  template_.created_ns = known_ns + 1;
  StoreIn(store.Root());
  host_.SetConfig({{"store", "dir:" + store.Root()}});
  StartWithAll();
  const auto is_fetched = [&] {
    const maio::Template local = Stored();
    return local.created_ns == template_.created_ns;
  };
  for (size_t asked = Asked().size(); asked != kFiles; asked += Asked().size()) {
    EXPECT_FALSE(is_fetched()) << Status();
    ASSERT_EQ(host_.RunBackground(1), 1u);
  }
  EXPECT_FALSE(is_fetched());
  host_.RunBackground();
  EXPECT_TRUE(is_fetched());
}

TEST_F(MaioPackagesTest, WhoAnswersLateIsAskedAgain) {
  StartWithAll();
  host_.late_answers = maio::kLookUpsNext + 3;  // all of the next lot, and three once more
  host_.RunBackground();
  EXPECT_EQ(Asked().size(), kFiles);
  EXPECT_EQ(Status()["stale_files"], 0);
}

// Nobody loads what has taken their place: the next start is recorded, if they are more than a few.
TEST_F(MaioPackagesTest, ATemplateOfPackagesThatAreGoneIsSetAside) {
  for (uint32_t f = 0; f < kFiles; f++) {
    if (f < maio::kLookUpsFirst || f % 3 != 0) host_.AddFile(Name(f), kFileBytes);
  }
  Start();
  host_.RunBackground();
  End("service_ready");
  host_.RunBackground();
  EXPECT_FALSE(IsStored());
}

TEST_F(MaioPackagesTest, ATemplateOfWhichFewAreGoneStays) {
  for (uint32_t f = 0; f < kFiles; f++) {
    if (f % 10 != 0) host_.AddFile(Name(f), kFileBytes);
  }
  Start();
  host_.RunBackground();
  End("service_ready");
  host_.RunBackground();
  Stored();
}

TEST_F(MaioPackagesTest, OfAServiceThatHasStoppedNothingIsLookedUp) { EndsLooking("service_stop"); }
TEST_F(MaioPackagesTest, OfAServiceThatIsReadyNothingIsLookedUp) { EndsLooking("service_ready"); }

TEST_F(MaioPackagesTest, OfAPolicyThatIsRemovedNothingIsLookedUp) {
  StartWithAll();
  host_.is_closing = true;
  EXPECT_EQ(host_.RunBackground(), 2u) << "what was asked for before";
  EXPECT_EQ(Asked().size(), maio::kLookUpsFirst + maio::kLookUpsNext);
}

}  // namespace
}  // namespace ppc::test
