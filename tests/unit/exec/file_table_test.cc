// SPDX-License-Identifier: Apache-2.0
#include "daemon/exec/file_table.h"

#include <gtest/gtest.h>

#include <cerrno>

#include "sim/replay/replay_backend.h"

namespace ppc {
namespace {

class FileTableTest : public testing::Test {
 protected:
  FileTableTest() { backend_.AddFile(1, "a", 5000); }
  const FileCopy* Get(uint64_t file) {
    return files_.Copy(file, backend_.NowNs(), &copy_) ? &copy_ : nullptr;
  }
  ReplayBackend backend_{{}};
  FileTable files_{&backend_};
  FileCopy copy_;
};

TEST_F(FileTableTest, NumberAndPath) {
  const FileCopy* file = Get(1);
  ASSERT_NE(file, nullptr);
  EXPECT_EQ(file->path, "a");
  uint64_t id = 0;
  uint64_t bytes = 0;
  EXPECT_TRUE(files_.FindPath("a", &id, &bytes));
  EXPECT_EQ(id, 1u);
  EXPECT_EQ(bytes, 5000u);
  EXPECT_FALSE(files_.FindPath("b", &id, &bytes));
  EXPECT_EQ(Get(2), nullptr);
}

TEST_F(FileTableTest, ARenameIsSeenAfterAWhile) {
  (void)Get(1);
  backend_.AddFile(1, "b", 6000);
  EXPECT_EQ(Get(1)->path, "a");
  backend_.AdvanceClock(3ULL * 1000 * 1000 * 1000);
  EXPECT_EQ(Get(1)->path, "b");
  EXPECT_EQ(Get(1)->bytes, 6000u);
}

// As who writes a file anew under its name.
TEST_F(FileTableTest, ANameThatAnotherFileTakesIsTheOthers) {
  (void)Get(1);
  backend_.AddFile(2, "a", 7000);
  ASSERT_NE(Get(2), nullptr);
  uint64_t id = 0;
  uint64_t bytes = 0;
  EXPECT_TRUE(files_.FindPath("a", &id, &bytes));
  EXPECT_EQ(id, 2u);
  // That the first one has another name, or goes, changes nothing for the others.
  backend_.AddFile(1, "longer than what a string has room for in itself", 5000);
  backend_.AdvanceClock(3ULL * 1000 * 1000 * 1000);
  ASSERT_NE(Get(2), nullptr);
  EXPECT_EQ(Get(1)->path, "longer than what a string has room for in itself");
  EXPECT_TRUE(files_.FindPath("a", &id, &bytes));
  EXPECT_EQ(id, 2u);
  EXPECT_TRUE(files_.FindPath("longer than what a string has room for in itself", &id, &bytes));
  EXPECT_EQ(id, 1u);
}

TEST_F(FileTableTest, ACopySaysHowLongItHolds) {
  const uint64_t now = backend_.NowNs();
  FileCopy copy;
  ASSERT_TRUE(files_.Copy(1, now, &copy));
  EXPECT_EQ(copy.file, 1u);
  EXPECT_EQ(copy.path, "a");
  EXPECT_EQ(copy.bytes, 5000u);
  EXPECT_GT(copy.fresh_until_ns, now);
  backend_.AddFile(1, "b", 6000);
  EXPECT_EQ(copy.path, "a");
  ASSERT_TRUE(files_.Copy(1, copy.fresh_until_ns, &copy));
  EXPECT_EQ(copy.path, "b");
  EXPECT_EQ(copy.bytes, 6000u);
  EXPECT_FALSE(files_.Copy(2, now, &copy));
}

TEST_F(FileTableTest, AFileThatIsGoneIsForgotten) {
  constexpr uint64_t kLater = 3ULL * 1000 * 1000 * 1000;
  (void)Get(1);
  EXPECT_EQ(files_.Files(), std::vector<uint64_t>{1});
  backend_.MakeStale(1);
  backend_.AddFile(2, "a", 5000);  // another one of its name
  backend_.AdvanceClock(kLater);
  EXPECT_EQ(Get(1), nullptr);
  EXPECT_EQ(files_.Size(), 0u);
  EXPECT_EQ(files_.Find("a")->file, 2u);
}

TEST_F(FileTableTest, ARenewalThatIsNotTakenIsAskedForAgain) {
  (void)Get(1);
  int asked = 0;
  files_.UseRenewal([&](uint64_t) { return ++asked > 1; });
  backend_.AdvanceClock(3ULL * 1000 * 1000 * 1000);
  for (int i = 0; i < 4; ++i) EXPECT_NE(Get(1), nullptr);
  EXPECT_EQ(asked, 2);
}

TEST_F(FileTableTest, OfTooManyThoseGoThatAreNotUsed) {
  constexpr uint64_t kFiles = 40000;
  for (uint64_t file = 1; file <= kFiles; ++file) {
    backend_.AddFile(file, std::to_string(file), 5000);
    ASSERT_NE(Get(file), nullptr);
    backend_.AdvanceClock(1);
    if (file % 512 == 0) files_.Trim();
    ASSERT_TRUE(files_.Peek(1, backend_.NowNs(), &copy_)) << "the first is used all the time";
  }
  files_.Trim();
  EXPECT_LE(files_.Size(), 16384u);
  EXPECT_GE(files_.Size(), 14000u) << "some are forgotten, not all";
  EXPECT_TRUE(files_.Peek(kFiles, backend_.NowNs(), &copy_)) << "the newest";
}

// A mount whose disk is busy.
class SlowBackend : public ReplayBackend {
 public:
  SlowBackend() : ReplayBackend({}) {}
  Result<FileInfo> Resolve(uint64_t file, std::string* path) override {
    AdvanceClock(answer_ns);
    return ReplayBackend::Resolve(file, path);
  }
  Result<FileInfo> Lookup(const std::string& path) override {
    AdvanceClock(answer_ns);
    return ReplayBackend::Lookup(path);
  }
  uint64_t answer_ns = 0;
};

TEST(FileTable, SlowAnswersKeepTheLease) {
  SlowBackend backend;
  FileTable files(&backend);
  FileCopy copy;
  for (uint64_t file = 1; file <= 3; ++file) {
    backend.AddFile(file, std::to_string(file), 5000);
    ASSERT_TRUE(files.Copy(file, backend.NowNs(), &copy));
  }
  EXPECT_EQ(backend.LeaseRenewals(), 0u);  // they were quick
  backend.answer_ns = 1500ULL * 1000 * 1000;
  backend.AdvanceClock(3000ULL * 1000 * 1000);
  ASSERT_TRUE(files.Copy(1, backend.NowNs(), &copy));
  EXPECT_EQ(backend.LeaseRenewals(), 1u);
  ASSERT_TRUE(files.Find("2").ok());
  EXPECT_EQ(backend.LeaseRenewals(), 2u);
}

}  // namespace
}  // namespace ppc
