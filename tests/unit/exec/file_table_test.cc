// SPDX-License-Identifier: Apache-2.0
#include "daemon/exec/file_table.h"

#include <gtest/gtest.h>

#include <cerrno>

#include "daemon/backend/replay/replay_backend.h"

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
  (void)Get(1);
  EXPECT_EQ(files_.Refresh(1), 1u);  // only its name had to be looked up again
  backend_.MakeStale(1);
  EXPECT_FALSE(files_.Refresh(1).has_value());  // gone
  backend_.AddFile(2, "a", 5000);
  EXPECT_FALSE(files_.Refresh(1).has_value());  // another one under its name
  backend_.MakeStale(2);
  backend_.AddFile(3, "a", 5000);
  backend_.SetIno(3, 1);
  EXPECT_EQ(files_.Refresh(1), 3u);
  EXPECT_FALSE(files_.Refresh(77).has_value());
}

// The kernel drops an inode from its cache and gives the next lookup a new number.
TEST_F(FileTableTest, AFileWhoseNumberWentIsKeptWhileItsNameIsTheSame) {
  constexpr uint64_t kLater = 3ULL * 1000 * 1000 * 1000;
  (void)Get(1);
  backend_.MakeStale(1);
  backend_.AddFile(2, "a", 5000);
  backend_.SetIno(2, 1);
  backend_.AdvanceClock(kLater);
  const FileCopy* kept = Get(1);
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

// A symlink's name when the policy asked, the file's own name with the event.
TEST_F(FileTableTest, AFileIsTheSameUnderAnotherName) {
  EXPECT_EQ(files_.Find("a")->file, 1u);
  backend_.MakeStale(1);
  backend_.AddFile(2, "blobs/a", 5000);
  backend_.SetIno(2, 1);
  ASSERT_NE(Get(2), nullptr);
  EXPECT_EQ(copy_.first, 1u);
  EXPECT_EQ(copy_.path, "blobs/a");
  EXPECT_EQ(files_.CurrentOf(1), 2u);
}

TEST_F(FileTableTest, ARenameAfterwardsKeepsTheFile) {
  constexpr uint64_t kLater = 3ULL * 1000 * 1000 * 1000;
  (void)Get(1);
  backend_.MakeStale(1);
  backend_.AddFile(2, "a", 5000);
  backend_.SetIno(2, 1);
  ASSERT_NE(Get(2), nullptr);
  backend_.AddFile(2, "b", 6000);
  backend_.AdvanceClock(kLater);
  ASSERT_NE(Get(1), nullptr);
  EXPECT_EQ(copy_.path, "b");
  EXPECT_EQ(copy_.first, 1u);
}

TEST_F(FileTableTest, NumbersThatNobodyHasAnyMoreAreForgotten) {
  (void)Get(1);
  for (uint64_t number = 2; number < 50; ++number) {
    backend_.MakeStale(number - 1);
    backend_.AddFile(number, "a", 5000);
    backend_.SetIno(number, 1);
    ASSERT_NE(Get(number), nullptr);
    EXPECT_EQ(copy_.first, 1u);
  }
  EXPECT_EQ(files_.Size(), 10u);  // the first, eight for what is queued, the current
  EXPECT_EQ(files_.FirstOf(42), 1u);
  EXPECT_EQ(files_.Files(), std::vector<uint64_t>{49});
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
  (void)Get(1);
  ASSERT_TRUE(files_.SetNative(1, true));
  EXPECT_TRUE(backend_.IsFileNative(1));
  backend_.MakeStale(1);
  backend_.AddFile(2, "a", 5000);
  backend_.SetIno(2, 1);
  EXPECT_NE(Get(2), nullptr);
  EXPECT_TRUE(backend_.IsFileNative(2));
  ASSERT_TRUE(files_.SetNative(1, false));
  EXPECT_FALSE(backend_.IsFileNative(2));
}

TEST_F(FileTableTest, ResidencyIsTheFilesUnderAnyNumber) {
  constexpr uint64_t kMiB = 1 << 20;
  backend_.AddFile(5, "b", 8 * kMiB);
  (void)Get(5);
  backend_.MakeStale(5);
  backend_.AddFile(6, "b", 8 * kMiB);
  backend_.SetIno(6, 5);
  ASSERT_TRUE(backend_.Load(LoadRequest{.file = 6, .offset = 0, .length = 2 * kMiB}).ok());
  const Result<Residency> state = files_.Resident(5, 0, 0, {});
  ASSERT_TRUE(state.ok());
  EXPECT_EQ(state->resident, 2 * kMiB);
  EXPECT_EQ(files_.Resident(5, kMiB, 4 * kMiB, {})->resident, kMiB) << "by the old number again";
  EXPECT_EQ(files_.Resident(77, 0, 0, {}).error().code, ESTALE) << "never known";
}

TEST_F(FileTableTest, AFileWhoseNameIsAnotherFileIsGone) {
  constexpr uint64_t kLater = 3ULL * 1000 * 1000 * 1000;
  (void)Get(1);
  backend_.MakeStale(1);
  backend_.AddFile(2, "a", 5000);  // another inode
  backend_.AdvanceClock(kLater);
  EXPECT_EQ(Get(1), nullptr);
  EXPECT_EQ(files_.CurrentOf(1), 1u);  // nothing is known of it any more
  EXPECT_EQ(files_.Find("a")->file, 2u);
  backend_.MakeStale(2);
  backend_.AdvanceClock(kLater);
  EXPECT_EQ(Get(2), nullptr);  // no such name
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
  ASSERT_TRUE(files.Refresh(3).has_value());
  EXPECT_EQ(backend.LeaseRenewals(), 3u);
}

}  // namespace
}  // namespace ppc
