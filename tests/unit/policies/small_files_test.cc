// SPDX-License-Identifier: Apache-2.0
//
// Small files are taken out of a template and asked for in the order of the recording.
#include "policies/maio/follow/small_files.h"

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

namespace ppc::maio {
namespace {

constexpr uint64_t kCookie = 7ull << 56 | 1ull << 49;

class SmallFilesTest : public ::testing::Test {
 protected:
  SmallFilesTest() { t_.service_id = "abcd"; }

  uint32_t AddFile(const std::string& path, uint64_t bytes, FileKind kind, uint64_t number) {
    TemplateFile file;
    file.path = path;
    file.size = bytes;
    file.kind = kind;
    t_.files.push_back(file);
    numbers_.push_back(number);
    return static_cast<uint32_t>(t_.files.size() - 1);
  }
  uint32_t Small(uint64_t number, uint64_t bytes = 10000) {
    return AddFile("m" + std::to_string(number) + ".py", bytes, FileKind::kSmall, number);
  }
  TemplateGroup& Group(uint32_t id) {
    for (TemplateGroup& group : t_.groups) {
      if (group.id == id) return group;
    }
    t_.groups.emplace_back().id = id;
    return t_.groups.back();
  }
  void Read(uint32_t group, uint32_t file, uint64_t page, uint64_t pages) {
    Group(group).extents.push_back({file, page, pages});
  }
  SmallFiles Take(bool is_many = true) { return {&t_, &numbers_, 3, kCookie, is_many}; }
  // Numbers of the files asked for.
  static std::string Plan(SmallFiles* small, uint64_t max_bytes = ~0ull >> 1) {
    IoList list;
    small->Plan(max_bytes, 1, &list);
    std::string text;
    for (const ppc_io& io : list.ios()) text += std::to_string(io.file) + " ";
    return text;
  }
  static ppc_result ResultOf(const ppc_io& io, bool is_interrupted = false) {
    ppc_result result = {};
    result.kind = PPC_LOADED;
    result.file = io.file;
    result.cookie = io.cookie;
    result.ok = is_interrupted ? 0 : io.size;
    result.interrupted = is_interrupted ? 1 : 0;
    return result;
  }

  Template t_;
  std::vector<uint64_t> numbers_;
};

TEST_F(SmallFilesTest, AreAskedForInTheOrderOfTheRecording) {
  for (uint64_t number : {11, 12, 13, 14}) Small(number);
  for (uint32_t file : {2u, 0u, 3u, 1u}) Read(kCommonGroup, file, 0, 3);
  SmallFiles small = Take();
  EXPECT_EQ(Plan(&small, 15000), "13 11 ");
  EXPECT_FALSE(small.finished());
  EXPECT_EQ(Plan(&small), "14 12 ");
  EXPECT_EQ(Plan(&small), "");
  EXPECT_TRUE(small.finished());
  EXPECT_EQ(small.stats().asked, 40000u);
}

TEST_F(SmallFilesTest, SayThatTheyAreManyOnlyToWhoKnowsIt) {
  Read(kCommonGroup, Small(5), 0, 3);
  for (const bool knows : {true, false}) {
    Template copy = t_;
    std::vector<uint64_t> numbers = numbers_;
    SmallFiles small(&copy, &numbers, 3, kCookie, knows);
    IoList list;
    small.Plan(1 << 20, 1, &list);
    ASSERT_EQ(list.size(), 1u);
    const ppc_io& io = list.ios()[0];
    EXPECT_EQ(io.flags, knows ? PPC_IO_MANY : 0u);
    EXPECT_EQ(io.group, SmallFiles::kGroup);
    EXPECT_EQ(io.service, 3u);
    EXPECT_EQ(io.size, 10000u);  // to the file's end, not the page's
    EXPECT_TRUE(small.Owns(io.cookie));
    EXPECT_FALSE(small.Owns(io.cookie ^ 1ull << 48));
  }
}

TEST_F(SmallFilesTest, WhatStaysIsTheModelWithItsOwnNumbersOfFiles) {
  const uint32_t config = Small(21);
  const uint32_t shard = AddFile("a.safetensors", 1 << 20, FileKind::kSafetensors, 22);
  const uint32_t more = Small(23);
  const uint32_t last = AddFile("b.safetensors", 1 << 20, FileKind::kSafetensors, 24);
  Read(0, shard, 0, 10);
  Read(0, config, 0, 1);  // of an older template: workers had their own
  Read(0, last, 4, 5);
  Read(1, config, 0, 1);
  Read(1, shard, 10, 10);
  Read(kCommonGroup, more, 0, 2);
  SmallFiles small = Take();
  ASSERT_EQ(t_.files.size(), 2u);
  EXPECT_EQ(t_.files[1].path, "b.safetensors");
  EXPECT_EQ(numbers_, (std::vector<uint64_t>{22, 24}));
  EXPECT_EQ(Group(0).extents.ToVector(), (std::vector<Extent>{{0, 0, 10}, {1, 4, 5}}));
  EXPECT_EQ(Group(1).extents.ToVector(), (std::vector<Extent>{{0, 10, 10}}));
  EXPECT_TRUE(Group(kCommonGroup).extents.empty());
  EXPECT_EQ(Check(t_), "");
  EXPECT_TRUE(small.Knows(21));
  EXPECT_FALSE(small.Knows(22));
  EXPECT_EQ(Plan(&small), "23 21 ");  // each once
  EXPECT_EQ(small.stats().files, 2u);
}

TEST_F(SmallFilesTest, OnesThatAreGoneAreLeftOut) {
  Read(kCommonGroup, Small(0), 0, 1);
  Read(kCommonGroup, Small(31), 0, 1);
  SmallFiles small = Take();
  EXPECT_EQ(Plan(&small), "31 ");
  EXPECT_FALSE(small.Knows(0));
}

TEST_F(SmallFilesTest, AreEarlyUpToWhereTheModelWasBegun) {
  for (uint64_t number : {41, 42, 43}) Read(kCommonGroup, Small(number), 0, 3);
  t_.phases.push_back({Phase::kWeights, true, 5, {{kCommonGroup, 6 * kPage}}});
  SmallFiles small = Take();
  EXPECT_TRUE(small.IsEarly());
  EXPECT_EQ(Plan(&small, 20000), "41 42 ");
  EXPECT_FALSE(small.IsEarly());
  EXPECT_FALSE(small.finished());
}

TEST_F(SmallFilesTest, AreAllEarlyWhereNoPhaseWasTold) {
  for (uint64_t number : {41, 42}) Read(kCommonGroup, Small(number), 0, 3);
  SmallFiles small = Take();
  EXPECT_EQ(Plan(&small, 10000), "41 ");
  EXPECT_TRUE(small.IsEarly());
}

TEST_F(SmallFilesTest, AReaderThatIsAheadIsFollowed) {
  for (uint64_t number = 100; number < 200; number++) Read(kCommonGroup, Small(number), 0, 3);
  SmallFiles small = Take();
  EXPECT_EQ(Plan(&small, 10000), "100 ");
  // One file alone says nothing: any process may look at it.
  small.Touch(180, 0, 12288, true);
  EXPECT_EQ(Plan(&small, 10000), "101 ");
  for (uint64_t number : {150, 151, 152}) small.Touch(number, 0, 12288, true);
  EXPECT_EQ(Plan(&small, 10000), "153 ");
  const std::string rest = Plan(&small);
  // What it went past comes between, what it read itself does not.
  EXPECT_TRUE(rest.starts_with("102 154 103 155 ")) << rest;
  EXPECT_EQ(rest.find("180 "), std::string::npos);
  EXPECT_EQ(rest.find("150 "), std::string::npos);
  EXPECT_NE(rest.find("199 "), std::string::npos) << rest;
  EXPECT_TRUE(rest.ends_with("148 149 ")) << rest;
  EXPECT_TRUE(small.finished());
  EXPECT_EQ(small.stats().missed, 4u * 10000);
}

TEST_F(SmallFilesTest, HitsMoveNothing) {
  for (uint64_t number = 1; number < 50; number++) Read(kCommonGroup, Small(number), 0, 3);
  SmallFiles small = Take();
  for (uint64_t number : {30, 31, 32, 33}) small.Touch(number, 0, 12288, false);
  EXPECT_EQ(Plan(&small, 10000), "1 ");
  EXPECT_EQ(small.stats().missed, 0u);
}

TEST_F(SmallFilesTest, WhatWasInterruptedIsAskedForAgainNotForEver) {
  Read(kCommonGroup, Small(1), 0, 3);
  Read(kCommonGroup, Small(2), 0, 3);
  SmallFiles small = Take();
  int asked = 0;
  for (int round = 0; round < 10; round++) {
    IoList list;
    small.Plan(1 << 20, 1, &list);
    for (const ppc_io& io : list.ios()) {
      asked += io.file == 1 ? 1 : 0;
      small.Done(ResultOf(io, io.file == 1));
    }
  }
  EXPECT_EQ(asked, 3);
  EXPECT_TRUE(small.finished());
  EXPECT_EQ(small.stats().loaded, 10000u);
}

TEST_F(SmallFilesTest, ALibraryIsAskedForWhereItWasRead) {
  const uint32_t library = AddFile("libx.so", 400 << 20, KindOfPath("libx.so"), 9);
  Read(kCommonGroup, library, 1000, 300);
  Read(kCommonGroup, library, 0, 2);
  SmallFiles small = Take();
  IoList list;
  small.Plan(~0ull >> 1, 1, &list);
  uint64_t bytes = 0;
  for (const ppc_io& io : list.ios()) {
    bytes += io.size;
    EXPECT_LE(io.size, 512u << 10);
  }
  EXPECT_EQ(bytes, 302 * kPage);
  EXPECT_EQ(list.ios()[0].offset, 1000 * kPage);
}

TEST_F(SmallFilesTest, NonsenseIsBounded) {
  const uint32_t huge = AddFile("x.so", 1ull << 43, FileKind::kSmall, 9);
  Read(kCommonGroup, huge, 0, (1ull << 43) / kPage);
  SmallFiles small = Take();
  uint64_t asked = 0;
  for (int i = 0; i < 100; i++) {
    IoList list;
    small.Plan(~0ull >> 1, 1, &list);
    asked += list.size();
    for (const ppc_io& io : list.ios()) small.Done(ResultOf(io));
  }
  EXPECT_EQ(asked, 1u << 17);
  ppc_result stray = {};
  stray.cookie = kCookie | 0xfffffff;
  small.Done(stray);
}

// Of five files two are known, the others' numbers come in two lots and in no order.
TEST_F(SmallFilesTest, WhatIsLookedUpLaterIsWaitedForInItsPlace) {
  constexpr uint64_t kLater = SmallFiles::kLater;
  constexpr uint64_t kPart = 512 << 10;
  for (const uint64_t number : {uint64_t{20}, kLater, kLater | 1, uint64_t{10}, kLater | 2}) {
    const uint32_t file = Small(number, 2 * kPart);
    Read(kCommonGroup, file, 0, 2 * kPart / kPage);
  }
  SmallFiles small = Take();
  EXPECT_TRUE(small.IsLearning());
  EXPECT_EQ(small.stats().files, 5u);
  EXPECT_EQ(Plan(&small), "20 20 ");
  EXPECT_FALSE(small.finished());
  EXPECT_FALSE(small.Knows(5));
  IoList dropped;
  (void)small.Release(
      true, [](uint64_t, uint64_t, uint64_t) { return false; }, &dropped);
  for (const ppc_io& io : dropped.ios()) EXPECT_TRUE(io.file == 10 || io.file == 20) << io.file;

  std::vector<LookedUp> found(2);
  found[0].info.file = 15;
  found[1].is_gone = true;
  EXPECT_EQ(small.Learn(found), 1u);
  EXPECT_TRUE(small.IsLearning());
  EXPECT_EQ(small.stats().files, 4u);
  EXPECT_EQ(small.stats().gone, 2 * kPart);
  EXPECT_EQ(small.stats().bytes, 8 * kPart);
  EXPECT_EQ(Plan(&small), "15 15 10 10 ");

  found.resize(1);
  found[0].info.file = 5;
  EXPECT_EQ(small.Learn(found), 0u);
  EXPECT_FALSE(small.IsLearning());
  for (const uint64_t number : {5, 10, 15, 20}) EXPECT_TRUE(small.Knows(number)) << number;
  small.Touch(15, kPart, kPart, true);
  EXPECT_EQ(small.stats().missed, kPart);
  EXPECT_EQ(Plan(&small), "5 5 ");
  EXPECT_TRUE(small.finished());
}

// It may be there: nothing of it is loaded, and it does not count as gone.
TEST_F(SmallFilesTest, WhoDoesNotAnswerIsNotGone) {
  Read(kCommonGroup, Small(SmallFiles::kLater), 0, 3);
  SmallFiles small = Take();
  EXPECT_EQ(small.Learn(std::vector<LookedUp>(1)), 0u);
  EXPECT_EQ(Plan(&small), "");
  EXPECT_TRUE(small.finished());
  EXPECT_EQ(small.stats().gone, 0u);
  EXPECT_EQ(small.stats().files, 1u);
}

}  // namespace
}  // namespace ppc::maio
