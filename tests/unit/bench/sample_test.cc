// SPDX-License-Identifier: Apache-2.0
// The sampler: kernel counter texts and page residency.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "tests/unit/has.h"
#include "tests/unit/temp_tree.h"
#include "tools/model/sample/counters.h"
#include "tools/model/sample/residency.h"

namespace ppc::bench {
namespace {

namespace fs = std::filesystem;

TEST(Counters, DiskStat) {
  const auto disk = ParseDiskStat("     120        3     2048       55      0  0 0 0 0 0 0\n");
  ASSERT_TRUE(disk.has_value());
  EXPECT_EQ(disk->reads, 120u);
  EXPECT_EQ(disk->read_bytes, 2048u * 512);
  EXPECT_FALSE(ParseDiskStat("12 x").has_value());
  EXPECT_FALSE(ParseDiskStat("").has_value());
}

TEST(Counters, FlatValueMatchesWholeKeys) {
  const char* text = "anon 5\nfile 4096\nfile_mapped 7\npgsteal_file 1\npgsteal 9\n";
  EXPECT_EQ(FlatValue(text, "file"), 4096u);
  EXPECT_EQ(FlatValue(text, "pgsteal"), 9u);
  EXPECT_EQ(FlatValue(text, "anon"), 5u);
  EXPECT_EQ(FlatValue(text, "absent"), 0u);
}

TEST(Counters, NodeFilePages) {
  EXPECT_EQ(NodeFileBytes("Node 1 MemFree:  5 kB\nNode 1 FilePages:     12 kB\n"), 12u * 1024);
  EXPECT_EQ(NodeFileBytes("nothing"), 0u);
}

TEST(Counters, AbsentGroupGivesNothing) { EXPECT_EQ(CgroupJson("/nonexistent"), ""); }

TEST(Counters, GroupOfTheFirstVersionHasTheSameMembers) {
  const TempTree tree;
  tree.Write("/memory.usage_in_bytes", "700\n");
  tree.Write(
      "/memory.stat",
      "cache 1\ntotal_cache 500\ntotal_rss 120\ntotal_mapped_file 400\ntotal_active_file 30\n");
  tree.Write("/memory.kmem.usage_in_bytes", "80\n");
  tree.Write("/memory.failcnt", "3\n");
  tree.Write("/memory.oom_control", "oom_kill_disable 0\nunder_oom 0\noom_kill 1\n");
  EXPECT_EQ(
      CgroupJson(tree.Root()),
      "\"cg\":{\"current\":700,\"file\":500,\"anon\":120,\"kernel\":80,\"file_mapped\":400,"
      "\"active_file\":30,\"pgscan\":0,\"pgsteal\":0,\"workingset_refault_file\":0,\"high\":0,"
      "\"max\":3,\"oom_kill\":1}");
}

class ResidencyTest : public ::testing::Test {
 protected:
  void SetUp() override {
    tree_.Write("/b", std::string(64 * 4096, 'x'));
    tree_.Write("/a", std::string(100, 'x'));
    tree_.Write("/empty", "");
  }

  const TempTree tree_;
  const fs::path dir_ = tree_.Root();
};

TEST_F(ResidencyTest, ListsFilesByName) {
  const auto files = Value(MapDirectory(dir_));
  ASSERT_EQ(files.size(), 2u);
  EXPECT_EQ(files[0].first, "a");
  EXPECT_EQ(files[1].second.pages(), 64u);
  EXPECT_FALSE(MapDirectory(dir_ / "none").ok());
}

TEST_F(ResidencyTest, FreshFilesAreResident) {
  const auto file = Value(MappedFile::Open(dir_ / "b"));
  EXPECT_EQ(file.Resident(0, 1000), 64u);
  EXPECT_EQ(file.Resident(10, 4), 4u);
  EXPECT_EQ(file.Digits(8, 4), "44444444");
  EXPECT_EQ(file.Digits(128, 8).size(), 128u);  // more buckets than pages
}

TEST_F(ResidencyTest, DroppedFilesAreNot) {
  const int fd = ::open((dir_ / "b").c_str(), O_RDONLY);
  ASSERT_GE(fd, 0);
  ::fsync(fd);
  ::posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
  ::close(fd);
  const auto file = Value(MappedFile::Open(dir_ / "b"));
  if (file.Resident(0, 64) == 64) GTEST_SKIP() << "this file system keeps pages (tmpfs)";
  EXPECT_EQ(file.Digits(8, 4), "00000000");
}

}  // namespace
}  // namespace ppc::bench
