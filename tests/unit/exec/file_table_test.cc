// SPDX-License-Identifier: Apache-2.0
#include "daemon/exec/file_table.h"

#include <gtest/gtest.h>

#include "daemon/backend/replay_backend.h"

namespace ppc {
namespace {

class FileTableTest : public testing::Test {
 protected:
  FileTableTest() { backend_.AddFile(1, "a", 5000); }
  ReplayBackend backend_{{}};
  FileTable files_{&backend_};
};

TEST_F(FileTableTest, NumberAndPath) {
  const KnownFile* file = files_.Get(1);
  ASSERT_NE(file, nullptr);
  EXPECT_EQ(file->path, "a");
  uint64_t id = 0;
  uint64_t bytes = 0;
  EXPECT_TRUE(files_.FindPath("a", &id, &bytes));
  EXPECT_EQ(id, 1u);
  EXPECT_EQ(bytes, 5000u);
  EXPECT_FALSE(files_.FindPath("b", &id, &bytes));
  EXPECT_EQ(files_.Get(2), nullptr);
}

TEST_F(FileTableTest, ARenameIsSeenAfterAWhile) {
  (void)files_.Get(1);
  backend_.AddFile(1, "b", 6000);
  EXPECT_EQ(files_.Get(1)->path, "a");
  backend_.AdvanceClock(3ULL * 1000 * 1000 * 1000);
  EXPECT_EQ(files_.Get(1)->path, "b");
  EXPECT_EQ(files_.Get(1)->info.size, 6000u);
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

TEST_F(FileTableTest, RefreshFindsTheNewNumberOfAPath) {
  (void)files_.Get(1);
  EXPECT_FALSE(files_.Refresh(1).has_value());  // still the same
  backend_.MakeStale(1);
  EXPECT_FALSE(files_.Refresh(1).has_value());  // gone
  backend_.AddFile(2, "a", 5000);
  EXPECT_EQ(files_.Refresh(1), 2u);
  EXPECT_FALSE(files_.Refresh(77).has_value());
}

// The kernel drops an inode from its cache and gives the next lookup a new number.
TEST_F(FileTableTest, AFileWhoseNumberWentIsKeptWhileItsNameIsTheSame) {
  constexpr uint64_t kLater = 3ULL * 1000 * 1000 * 1000;
  (void)files_.Get(1);
  backend_.MakeStale(1);
  backend_.AddFile(2, "a", 5000);
  backend_.SetIno(2, 1);
  backend_.AdvanceClock(kLater);
  const KnownFile* kept = files_.Get(1);
  ASSERT_NE(kept, nullptr);
  EXPECT_EQ(kept->path, "a");
  EXPECT_EQ(files_.CurrentOf(1), 2u);
  EXPECT_EQ(files_.Refresh(1), 2u);
  EXPECT_EQ(files_.Find("a")->file, 1u);
}

TEST_F(FileTableTest, PoliciesKnowAFileByItsFirstNumber) {
  (void)files_.Find("a");
  backend_.MakeStale(1);
  backend_.AddFile(2, "a", 5000);
  backend_.SetIno(2, 1);
  // An event with the new number comes while the old one is still fresh.
  FileCopy copy;
  ASSERT_TRUE(files_.Copy(2, backend_.NowNs(), &copy));
  EXPECT_EQ(copy.file, 2u);
  EXPECT_EQ(copy.first, 1u);
  EXPECT_EQ(files_.FirstOf(2), 1u);
  EXPECT_EQ(files_.CurrentOf(1), 2u);
  EXPECT_EQ(files_.CurrentOf(2), 2u);
  EXPECT_EQ(files_.Find("a")->file, 1u);
  // And once more.
  backend_.MakeStale(2);
  backend_.AddFile(3, "a", 5000);
  backend_.SetIno(3, 1);
  EXPECT_EQ(files_.Refresh(2), 3u);
  EXPECT_EQ(files_.FirstOf(3), 1u);
  EXPECT_EQ(files_.CurrentOf(1), 3u);
  EXPECT_EQ(files_.FirstOf(77), 77u);
  EXPECT_EQ(files_.CurrentOf(77), 77u);
}

TEST_F(FileTableTest, AnotherFileOfTheSameNameHasANumberOfItsOwn) {
  (void)files_.Find("a");
  backend_.MakeStale(1);
  backend_.AddFile(2, "a", 5000);  // another inode
  FileCopy copy;
  ASSERT_TRUE(files_.Copy(2, backend_.NowNs(), &copy));
  EXPECT_EQ(copy.first, 2u);
  EXPECT_EQ(files_.CurrentOf(1), 1u);
}

TEST_F(FileTableTest, NativeReadingOutlivesTheNumber) {
  (void)files_.Get(1);
  ASSERT_TRUE(files_.SetNative(1, true));
  EXPECT_TRUE(backend_.IsFileNative(1));
  backend_.MakeStale(1);
  backend_.AddFile(2, "a", 5000);
  backend_.SetIno(2, 1);
  EXPECT_NE(files_.Get(2), nullptr);
  EXPECT_TRUE(backend_.IsFileNative(2));
  ASSERT_TRUE(files_.SetNative(1, false));
  EXPECT_FALSE(backend_.IsFileNative(2));
}

TEST_F(FileTableTest, AFileWhoseNameIsAnotherFileIsGone) {
  constexpr uint64_t kLater = 3ULL * 1000 * 1000 * 1000;
  (void)files_.Get(1);
  backend_.MakeStale(1);
  backend_.AddFile(2, "a", 5000);  // another inode
  backend_.AdvanceClock(kLater);
  EXPECT_EQ(files_.Get(1), nullptr);
  EXPECT_EQ(files_.CurrentOf(1), 1u);  // nothing is known of it any more
  EXPECT_EQ(files_.Find("a")->file, 2u);
  backend_.MakeStale(2);
  backend_.AdvanceClock(kLater);
  EXPECT_EQ(files_.Get(2), nullptr);  // no such name
}

}  // namespace
}  // namespace ppc
