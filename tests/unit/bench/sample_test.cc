// SPDX-License-Identifier: Apache-2.0
// The sampler: kernel counter texts and page residency.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

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
  const fs::path dir =
      fs::temp_directory_path() / ("ppc_cgroup_test." + std::to_string(::getpid()));
  fs::create_directories(dir);
  std::ofstream(dir / "memory.usage_in_bytes") << "700\n";
  std::ofstream(dir / "memory.stat")
      << "cache 1\ntotal_cache 500\ntotal_rss 120\ntotal_mapped_file 400\ntotal_active_file 30\n";
  std::ofstream(dir / "memory.kmem.usage_in_bytes") << "80\n";
  std::ofstream(dir / "memory.failcnt") << "3\n";
  std::ofstream(dir / "memory.oom_control") << "oom_kill_disable 0\nunder_oom 0\noom_kill 1\n";
  const std::string text = CgroupJson(dir);
  fs::remove_all(dir);
  EXPECT_EQ(
      text,
      "\"cg\":{\"current\":700,\"file\":500,\"anon\":120,\"kernel\":80,\"file_mapped\":400,"
      "\"active_file\":30,\"pgscan\":0,\"pgsteal\":0,\"workingset_refault_file\":0,\"high\":0,"
      "\"max\":3,\"oom_kill\":1}");
}

class ResidencyTest : public ::testing::Test {
 protected:
  void SetUp() override {
    dir_ = fs::temp_directory_path() / ("ppc_sample_test." + std::to_string(::getpid()));
    fs::create_directories(dir_);
    std::ofstream(dir_ / "b", std::ios::binary) << std::string(64 * 4096, 'x');
    std::ofstream(dir_ / "a", std::ios::binary) << std::string(100, 'x');
    std::ofstream(dir_ / "empty");
  }
  void TearDown() override { fs::remove_all(dir_); }

  fs::path dir_;
};

TEST_F(ResidencyTest, ListsFilesByName) {
  const auto files = MapDirectory(dir_);
  ASSERT_TRUE(files.ok());
  ASSERT_EQ(files->size(), 2u);
  EXPECT_EQ((*files)[0].first, "a");
  EXPECT_EQ((*files)[1].second.pages(), 64u);
  EXPECT_FALSE(MapDirectory(dir_ / "none").ok());
}

TEST_F(ResidencyTest, FreshFilesAreResident) {
  const auto file = MappedFile::Open(dir_ / "b");
  ASSERT_TRUE(file.ok());
  EXPECT_EQ(file->Resident(0, 1000), 64u);
  EXPECT_EQ(file->Resident(10, 4), 4u);
  EXPECT_EQ(file->Digits(8, 4), "44444444");
  EXPECT_EQ(file->Digits(128, 8).size(), 128u);  // more buckets than pages
}

TEST_F(ResidencyTest, DroppedFilesAreNot) {
  const int fd = ::open((dir_ / "b").c_str(), O_RDONLY);
  ASSERT_GE(fd, 0);
  ::fsync(fd);
  ::posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
  ::close(fd);
  const auto file = MappedFile::Open(dir_ / "b");
  ASSERT_TRUE(file.ok());
  if (file->Resident(0, 64) == 64) GTEST_SKIP() << "this file system keeps pages (tmpfs)";
  EXPECT_EQ(file->Digits(8, 4), "00000000");
}

}  // namespace
}  // namespace ppc::bench
