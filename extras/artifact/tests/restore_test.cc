// SPDX-License-Identifier: Apache-2.0
// A restore adds missing files, keeps existing ones, and is all or nothing.
#include <sys/file.h>

#include <cerrno>

#include "extras/artifact/tests/fixture.h"
#include "tests/unit/has.h"

namespace ppc::artifact {
namespace {

class RestoreTest : public ArtifactTest {
 protected:
  void SetUp() override {
    ArtifactTest::SetUp();
    Fill();
    before_ = Picture();
    MustCapture(Compress::kAlways);
  }
  // The largest object, that of kernel.cubin.
  std::string BigObject() const {
    std::string largest;
    for (const auto& entry : fs::recursive_directory_iterator(OwnStore() + "/objects")) {
      if (!entry.is_regular_file()) continue;
      if (largest.empty() || entry.file_size() > fs::file_size(largest)) largest = entry.path();
    }
    return largest;
  }
  void Change(const std::string& path, size_t at, char by) const {
    std::string text = TextAt(path);
    text[at] = static_cast<char>(text[at] ^ by);
    std::ofstream(path, std::ios::binary) << text;
  }
  void ExpectNothingRestored(int code, const std::string& part) {
    Empty();
    ExpectError(TryRestore(), code, part);
    EXPECT_EQ(Picture(), "");
  }

  std::string before_;
};

TEST_F(RestoreTest, KeepsWhatIsThere) {
  Empty();
  tree_.Write("/engine/triton/ab/kernel.cubin", "newer and another");
  tree_.Write("/engine/triton/ab/more", "only here");
  tree_.Link("/engine/vllm/copy", "/nonexistent");
  tree_.Write("/engine/vllm/plan", "a file where the bundle has a directory");
  const Restored restored = MustRestore();
  EXPECT_EQ(restored.files, 2U);
  EXPECT_EQ(restored.kept, 4U);
  EXPECT_EQ(TextAt(tree_.Path("/engine/triton/ab/kernel.cubin")), "newer and another");
  EXPECT_EQ(TextAt(tree_.Path("/engine/triton/ab/more")), "only here");
  EXPECT_EQ(TextAt(tree_.Path("/engine/triton/ab/kernel.json")), "{}");
  EXPECT_EQ(fs::read_symlink(tree_.Path("/engine/vllm/copy")), "/nonexistent");
  EXPECT_TRUE(fs::is_regular_file(tree_.Path("/engine/vllm/plan")));
  EXPECT_TRUE(fs::is_directory(tree_.Path("/engine/vllm/nothing/at all")));
}

TEST_F(RestoreTest, DoesNotFollowLinksOutOfARoot) {
  Empty();
  fs::create_directories(tree_.Path("/elsewhere"));
  tree_.Link("/engine/triton/ab", tree_.Path("/elsewhere"));
  const Restored restored = MustRestore();
  EXPECT_EQ(restored.kept, 2U);
  EXPECT_TRUE(fs::is_empty(tree_.Path("/elsewhere")));
}

TEST_F(RestoreTest, ADirectoryThatOthersMayWriteToIsNotRestoredTo) {
  const std::string directory = tree_.Path("/engine/triton/ab");
  for (const mode_t mode : {0777, 0770}) {
    Empty();
    fs::create_directories(directory);
    chmod(directory.c_str(), mode);
    ExpectError(TryRestore(), EPERM, directory + ": ");
    EXPECT_EQ(FilesBelow(tree_.Path("/engine")), 0U);
  }
  if (geteuid() != 0) GTEST_SKIP() << "needs root to give directories away";
  Empty();
  fs::create_directories(directory);
  ASSERT_EQ(chown(directory.c_str(), 12345, 0), 0);
  EXPECT_FALSE(TryRestore());
}

TEST_F(RestoreTest, TwiceIsOnce) {
  Empty();
  MustRestore();
  const Restored again = MustRestore();
  EXPECT_EQ(again.files, 0U);
  EXPECT_EQ(again.kept, 6U);
  EXPECT_EQ(Picture(), before_);
}

TEST_F(RestoreTest, CompletesWhatIsMissing) {
  fs::remove(tree_.Path("/engine/triton/ab/kernel.cubin"));
  fs::remove_all(tree_.Path("/engine/vllm/nothing/at all"));
  const Restored restored = MustRestore();
  EXPECT_EQ(restored.files, 1U);
  EXPECT_TRUE(TextAt(tree_.Path("/engine/triton/ab/kernel.cubin")) == Text(700'000));
  EXPECT_TRUE(fs::is_directory(tree_.Path("/engine/vllm/nothing/at all")));
}

// A file system that lost power has names and times before data.
TEST_F(RestoreTest, ReplacesWhatItDidNotFinishItself) {
  const std::string torn = tree_.Path("/engine/triton/ab/kernel.cubin");
  struct stat info {};
  ASSERT_EQ(stat(torn.c_str(), &info), 0);
  ASSERT_EQ(truncate(torn.c_str(), 4096), 0);
  EXPECT_EQ(MustRestore().files, 0U) << "its time is another: it is the engine's";
  const timespec times[2] = {info.st_mtim, info.st_mtim};
  utimensat(AT_FDCWD, torn.c_str(), times, 0);
  EXPECT_EQ(MustRestore().files, 1U);
  EXPECT_TRUE(TextAt(torn) == Text(700'000));
}

TEST_F(RestoreTest, MakesRootsThatAreMissingForThisUserAlone) {
  fs::remove_all(tree_.Path("/engine"));
  MustRestore();
  EXPECT_EQ(Picture(), before_);
  struct stat info {};
  ASSERT_EQ(stat(tree_.Path("/engine/vllm").c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0700U);
}

TEST_F(RestoreTest, RemovesLeftoversOfKilledOnesAlone) {
  fs::create_directories(tree_.Path("/engine/vllm/.ppc-restore.killed/x"));
  fs::create_directories(tree_.Path("/engine/vllm/.ppc-restore.atwork"));
  const UniqueFd lock(open(tree_.Path("/engine/vllm/.ppc-restore.atwork").c_str(), O_RDONLY));
  ASSERT_EQ(flock(lock.Get(), LOCK_EX), 0);
  MustRestore();
  EXPECT_FALSE(fs::exists(tree_.Path("/engine/vllm/.ppc-restore.killed")));
  EXPECT_TRUE(fs::exists(tree_.Path("/engine/vllm/.ppc-restore.atwork")));
  EXPECT_EQ(MustCapture().left_out.count, 0U) << "nor are they captured";
}

TEST_F(RestoreTest, AnotherKeyRestoresNothingAndSaysWhy) {
  Empty();
  key_["driver"] = "nvidia 560.1";
  const Store store = Open(Store::Use::kRead);
  const Match match = Value(FindBundle(store, "svc1", key_));
  EXPECT_FALSE(match.manifest);
  ASSERT_EQ(match.differences.size(), 1U);
  EXPECT_EQ(TextOf(match.differences[0]), "driver is 'nvidia 560.1', it was 'nvidia 550.54.14'");
  EXPECT_TRUE(Value(FindBundle(store, "svc2", key_)).differences.empty());
  EXPECT_EQ(Picture(), "");
}

TEST_F(RestoreTest, TheNearestKeyIsNamed) {
  const Key first = key_;
  key_ = {{"gpu", "NVIDIA A100"}, {"driver", "nvidia 535.1"}};
  MustCapture();
  key_ = first;
  key_["driver"] = "nvidia 560.1";
  const Match match = Value(FindBundle(Open(Store::Use::kRead), "svc1", key_));
  EXPECT_EQ(match.nearest.key_id, KeyIdOf(first));
  EXPECT_EQ(match.differences.size(), 1U);
}

TEST_F(RestoreTest, AMissingObjectRestoresNothing) {
  fs::remove(BigObject());
  ExpectNothingRestored(
      ENOENT, "is missing; nothing is restored; capture anew after: ppcctl artifact rm svc1/");
}

TEST_F(RestoreTest, ADamagedObjectRestoresNothing) {
  const std::string object = BigObject();
  const std::string whole = TextAt(object);
  for (const size_t at : {size_t{0}, whole.size() / 2, whole.size() - 1}) {
    Change(object, at, 1);
    ExpectNothingRestored(EBADMSG, "is damaged; nothing is restored");
    std::ofstream(object, std::ios::binary) << whole;
  }
  for (const size_t bytes : {size_t{0}, whole.size() / 2, whole.size() - 1}) {
    fs::resize_file(object, bytes);
    ExpectNothingRestored(EBADMSG, "is damaged");
    std::ofstream(object, std::ios::binary) << whole;
  }
  std::ofstream(object, std::ios::binary) << whole << "more";
  ExpectNothingRestored(EBADMSG, "is damaged");
  std::ofstream(object, std::ios::binary) << whole;
  MustRestore();
  EXPECT_EQ(Picture(), before_);
}

TEST_F(RestoreTest, AnUncompressedObjectIsCheckedAsWell) {
  fs::remove_all(place_.directory);
  MustCapture(Compress::kNever);
  Change(BigObject(), 1000, 1);
  ExpectNothingRestored(EBADMSG, "is damaged; nothing is restored");
}

TEST_F(RestoreTest, AForgedBundleRestoresNothing) {
  Change(ManifestPath(), TextAt(ManifestPath()).size() / 2, 1);
  ExpectNothingRestored(EKEYREJECTED, "forged or damaged");
}

TEST_F(RestoreTest, AnotherUsersSecretRestoresNothing) {
  std::ofstream(OwnStore() + "/key", std::ios::binary) << "another secret altogether";
  ExpectNothingRestored(EKEYREJECTED, "another key file");
}

TEST_F(RestoreTest, ABundleUnderAnotherNameRestoresNothing) {
  const std::string was = ManifestPath();
  key_["driver"] = "nvidia 560.1";
  fs::rename(was, ManifestPath());
  ExpectNothingRestored(EBADMSG, "another's under this name");
}

TEST_F(RestoreTest, ARootWithoutADirectoryIsNamed) {
  Empty();
  roots_.pop_back();
  ExpectError(TryRestore(), ENOENT, "--root vllm=DIR");
  EXPECT_EQ(Picture(), "");
}

TEST_F(RestoreTest, ARootOfAnotherUserIsNotWrittenTo) {
  if (geteuid() != 0) GTEST_SKIP() << "needs root to give directories away";
  Empty();
  ASSERT_EQ(chown(tree_.Path("/engine/vllm").c_str(), 12345, 0), 0);
  ExpectError(TryRestore(), EPERM, "belongs to user 12345");
  EXPECT_EQ(Picture(), "");
}

}  // namespace
}  // namespace ppc::artifact
