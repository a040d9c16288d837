// SPDX-License-Identifier: Apache-2.0
// Small files are taken out of a template and asked for in the order of the recording; which files
// are read in small pieces, and what is loaded of them.
#include "policies/maio/follow/small_files.h"

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "policies/maio/follow/scattered.h"
#include "tests/unit/has.h"

namespace ppc::maio {
namespace {

constexpr uint64_t kCookie = 7ull << 56 | 1ull << 49;

uint32_t AddTo(Template* t, const std::string& path, uint64_t bytes, FileKind kind) {
  t->files.push_back({.path = path, .size = bytes, .kind = kind});
  return static_cast<uint32_t>(t->files.size() - 1);
}

class SmallFilesTest : public ::testing::Test {
 protected:
  SmallFilesTest() { t_.service_id = "abcd"; }

  uint32_t AddFile(const std::string& path, uint64_t bytes, FileKind kind, uint64_t number) {
    numbers_.push_back(number);
    return AddTo(&t_, path, bytes, kind);
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
  EXPECT_FALSE(Has(rest, "180 "));
  EXPECT_FALSE(Has(rest, "150 "));
  EXPECT_TRUE(Has(rest, "199 "));
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
  constexpr uint64_t kUnresolved = SmallFiles::kUnresolved;
  constexpr uint64_t kPart = 512 << 10;
  for (const uint64_t number :
       {uint64_t{20}, kUnresolved, kUnresolved | 1, uint64_t{10}, kUnresolved | 2}) {
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

  std::vector<FileLookup> found(2);
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
  Read(kCommonGroup, Small(SmallFiles::kUnresolved), 0, 3);
  SmallFiles small = Take();
  EXPECT_EQ(small.Learn(std::vector<FileLookup>(1)), 0u);
  EXPECT_EQ(Plan(&small), "");
  EXPECT_TRUE(small.finished());
  EXPECT_EQ(small.stats().gone, 0u);
  EXPECT_EQ(small.stats().files, 1u);
}

class ScatteredTest : public ::testing::Test {
 protected:
  ScatteredTest() {
    t_.service_id = "abcd";
    t_.groups.resize(1);
  }
  uint32_t AddFile(const std::string& path, FileKind kind = FileKind::kOther) {
    return AddTo(&t_, path, 1 << 30, kind);
  }
  void Read(uint32_t file, uint64_t page, uint64_t pages) {
    t_.groups[0].extents.push_back({file, page, pages});
  }
  // Here and there: two steps on, one back.
  void ReadAround(uint32_t file, uint64_t pages, uint64_t count = 100) {
    for (uint64_t i = 0; i < count; i++) Read(file, (i % 3 * 400 + i) * 100, pages);
  }
  std::vector<Extent> List(const std::vector<bool>& is_scattered) {
    Cells cells(t_, is_scattered);
    std::vector<Extent> listed;
    for (const Extent& e : t_.groups[0].extents)
      cells.ForEachNew(e, [&](const Extent& run) { listed.push_back(run); });
    return listed;
  }

  Template t_;
};

TEST_F(ScatteredTest, IsWhatIsReadInManyCrumbsToAndFro) {
  ReadAround(AddFile("memory"), 1);
  ReadAround(AddFile("blocks"), 64);
  ReadAround(AddFile("chunks"), 65);
  ReadAround(AddFile("a-few"), 1, 63);
  ReadAround(AddFile("model.gguf", FileKind::kGguf), 1);
  ReadAround(AddFile("config", FileKind::kSmall), 1);
  const uint32_t sparse = AddFile("ascending");
  for (uint64_t i = 0; i < 1000; i++) Read(sparse, i * 100, 1);
  EXPECT_EQ(ScatteredFiles(t_), (std::vector<bool>{true, true, false, false, false, false, false}));
}

TEST_F(ScatteredTest, NeighboursAreLoadedWithTheFirstOfThem) {
  const uint32_t file = AddFile("memory");
  Read(file, 70, 1);
  Read(file, 5, 2);
  Read(file, 64, 1);  // read over what lies between
  Read(file, 63, 2);  // the cell before, and one that is listed
  Read(file, 20, 1);  // too far from its neighbours in the cell
  Read(file, 127, 1);
  EXPECT_EQ(List({true}), (std::vector<Extent>{
                              {file, 64, 7},
                              {file, 127, 1},
                              {file, 5, 2},
                              {file, 20, 1},
                              {file, 63, 1},
                          }));
}

TEST_F(ScatteredTest, AWholeCellIsOneRange) {
  const uint32_t file = AddFile("memory");
  for (uint64_t i = 0; i < 64; i++) Read(file, 128 + (i * 7 + 3) % 64, 1);
  EXPECT_EQ(List({true}), (std::vector<Extent>{{file, 128, 64}}));
  Read(file, 191, 3);  // beyond its end
  EXPECT_EQ(List({true}), (std::vector<Extent>{{file, 128, 64}, {file, 192, 2}}));
}

TEST_F(ScatteredTest, IsServedAsSmallFilesAreAndLeavesTheRestToItsReaders) {
  const uint32_t memory = AddFile("memory");
  ReadAround(memory, 1);
  Read(AddFile("model.gguf", FileKind::kGguf), 0, 5000);
  std::vector<uint64_t> numbers = {11, 12};
  SmallFiles small(&t_, &numbers, 3, 7ull << 56 | 1ull << 49, true);
  EXPECT_EQ(numbers, std::vector<uint64_t>{12});
  EXPECT_EQ(t_.groups[0].extents.ToVector(), (std::vector<Extent>{{0, 0, 5000}}));
  EXPECT_EQ(small.stats().bytes, 100 * kPage);
  IoList list;
  small.Plan(~0ull >> 1, 1, &list);
  ASSERT_EQ(list.size(), 100u);
  EXPECT_EQ(list.ios()[1].offset, 401 * 100 * kPage);  // as recorded
  EXPECT_EQ(list.ios()[1].flags, PPC_IO_MANY);
  // What a machine has mapped it needs.
  list.Clear();
  EXPECT_FALSE(small.Release(
      true, [](uint64_t, uint64_t, uint64_t) { return false; }, &list));
  for (const ppc_io& io : list.ios()) EXPECT_EQ(io.flags, 0u);
}

}  // namespace
}  // namespace ppc::maio
