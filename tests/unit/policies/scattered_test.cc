// SPDX-License-Identifier: Apache-2.0
//
// Files that are read in crumbs: which they are, and what is loaded of them.
#include "policies/maio/follow/scattered.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "policies/maio/follow/small_files.h"

namespace ppc::maio {
namespace {

class ScatteredTest : public ::testing::Test {
 protected:
  ScatteredTest() {
    t_.service_id = "abcd";
    t_.groups.resize(1);
  }
  uint32_t AddFile(const std::string& path, FileKind kind = FileKind::kOther) {
    TemplateFile file;
    file.path = path;
    file.size = 1 << 30;
    file.kind = kind;
    t_.files.push_back(file);
    return static_cast<uint32_t>(t_.files.size() - 1);
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
