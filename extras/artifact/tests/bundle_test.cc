// SPDX-License-Identifier: Apache-2.0
// Which files are captured, and in which form.
#include <sys/un.h>

#include <cerrno>
#include <chrono>
#include <stop_token>

#include "extras/artifact/tests/fixture.h"

namespace ppc::artifact {
namespace {

class BundleTest : public ArtifactTest {
 protected:
  void SetUp() override {
    ArtifactTest::SetUp();
    Fill();
  }
};

TEST_F(BundleTest, ComesBackAsItWas) {
  const std::string before = Picture();
  const Captured captured = MustCapture();
  EXPECT_EQ(captured.files, 5U);
  EXPECT_EQ(captured.left_out.count, 0U) << captured.left_out.first;
  EXPECT_FALSE(captured.is_unchanged);
  Empty();
  const Restored restored = MustRestore();
  EXPECT_EQ(restored.files, 5U);
  EXPECT_EQ(restored.kept, 0U);
  EXPECT_EQ(Picture(), before);
}

TEST_F(BundleTest, ComesBackFromEveryForm) {
  const std::string before = Picture();
  for (const Compress compress : {Compress::kAlways, Compress::kNever}) {
    fs::remove_all(place_.directory);
    MustCapture(compress);
    size_t packed = 0;
    for (const auto& entry : fs::recursive_directory_iterator(OwnStore() + "/objects")) {
      if (entry.path().extension() == ".zst") ++packed;
    }
    EXPECT_EQ(packed > 0, compress == Compress::kAlways);
    Empty();
    MustRestore();
    EXPECT_EQ(Picture(), before);
  }
}

TEST_F(BundleTest, IsCompressedAndHoldsEqualFilesOnce) {
  const Captured captured = MustCapture(Compress::kAlways);
  EXPECT_EQ(captured.bytes, 1'400'000U + 2 + 4);
  EXPECT_LT(captured.stored_bytes, 500'000U);
  EXPECT_EQ(FilesBelow(OwnStore() + "/objects"), 4U);
}

TEST_F(ArtifactTest, DoesNotCompressInVain) {
  std::string noise(1 << 20, '\0');
  ASSERT_EQ(getentropy(noise.data(), 256), 0);
  for (size_t at = 256; at < noise.size(); at += 256) ASSERT_EQ(getentropy(&noise[at], 256), 0);
  tree_.Write("/engine/triton/noise", noise);
  EXPECT_EQ(MustCapture(Compress::kAlways).stored_bytes, noise.size());
  Empty();
  MustRestore();
  EXPECT_TRUE(TextAt(tree_.Path("/engine/triton/noise")) == noise);
}

// As inductor's locks: a start that compiles nothing still takes them all.
TEST_F(BundleTest, ALockThatWasTakenIsNoChange) {
  const std::string lock = tree_.Path("/engine/triton/lock");
  tree_.Write("/engine/triton/lock", "");
  MustCapture();
  const auto later = fs::last_write_time(lock) + std::chrono::seconds(5);
  fs::last_write_time(lock, later);
  fs::last_write_time(tree_.Path("/engine/triton/ab"), later);
  EXPECT_TRUE(MustCapture().is_unchanged);
  tree_.Write("/engine/triton/lock", "its holder");
  EXPECT_FALSE(MustCapture().is_unchanged);
}

TEST_F(BundleTest, SecondCaptureReadsOnlyWhatChanged) {
  MustCapture();
  const std::string manifest = TextAt(ManifestPath());
  const Captured again = MustCapture();
  EXPECT_TRUE(again.is_unchanged);
  EXPECT_EQ(again.stored_bytes, 0U);
  EXPECT_EQ(again.unread, 2U) << "those written within the clock's tick are read again";
  EXPECT_EQ(TextAt(ManifestPath()), manifest);
  tree_.Write("/engine/triton/new", Text(1000, 7));
  const Captured more = MustCapture();
  EXPECT_FALSE(more.is_unchanged);
  EXPECT_EQ(more.files, 6U);
  EXPECT_LE(more.stored_bytes, 1000U);
}

TEST_F(BundleTest, WhatNoBundleNamesAnyMoreGoes) {
  MustCapture();
  const size_t before = FilesBelow(OwnStore() + "/objects");
  tree_.Write("/engine/triton/new", Text(1000, 7));
  fs::remove(tree_.Path("/engine/vllm/copy"));
  fs::remove(tree_.Path("/engine/triton/ab/kernel.cubin"));
  MustCapture();
  EXPECT_EQ(FilesBelow(OwnStore() + "/objects"), before);
  EXPECT_EQ(FilesBelow(OwnStore() + "/staging"), 0U);
  Empty();
  EXPECT_EQ(MustRestore().files, 4U);
}

TEST_F(ArtifactTest, TheOldestOfAServiceGo) {
  const auto set_time = [](const std::string& path, time_t seconds) {
    const timespec times[2] = {{seconds, 0}, {seconds, 0}};
    utimensat(AT_FDCWD, path.c_str(), times, 0);
  };
  const auto capture = [&](const std::string& driver) {
    key_["driver"] = driver;
    tree_.Write("/engine/triton/kernel", driver);
    set_time(tree_.Path("/engine/triton/kernel"), 1'600'000'000);
    return MustCapture();
  };
  const BundleName first = capture("first").name;
  const BundleName second = capture("second").name;
  set_time(OwnStore() + "/bundles/" + first.Text(), 1'700'000'000);
  set_time(OwnStore() + "/bundles/" + second.Text(), 1'700'000'001);
  EXPECT_TRUE(capture("first").is_unchanged) << "it is in use";
  for (int i = 0; i < 7; ++i) capture(std::to_string(i));
  const Store store = Open();
  EXPECT_EQ(store.List().value().size(), 8U);
  EXPECT_TRUE(store.Load(first));
  EXPECT_FALSE(store.Load(second));
  EXPECT_EQ(FilesBelow(OwnStore() + "/objects"), 8U);
}

TEST_F(BundleTest, WhatAKilledOneLeftGoes) {
  Open();
  tree_.Write("/store/" + std::to_string(geteuid()) + "/staging/0123456789abcdef", "half");
  MustCapture();
  EXPECT_EQ(FilesBelow(OwnStore() + "/staging"), 0U);
  EXPECT_EQ(FilesBelow(OwnStore() + "/objects"), 4U);
}

TEST_F(BundleTest, LeavesOutWhatLeavesItsRootAndSaysSo) {
  tree_.Link("/engine/vllm/out", "/etc");
  tree_.Link("/engine/vllm/up", "../triton/cd/empty");
  ASSERT_EQ(mkfifo(tree_.Path("/engine/vllm/pipe").c_str(), 0600), 0);
  const Captured captured = MustCapture();
  EXPECT_EQ(captured.files, 5U);
  EXPECT_EQ(captured.left_out.count, 3U);
  EXPECT_EQ(captured.left_out.first, "out: it leads out of its root, to an absolute path");
}

TEST_F(BundleTest, LeavesOutWhatIsAnothers) {
  if (geteuid() != 0) GTEST_SKIP() << "needs root to give files away";
  ASSERT_EQ(chown(tree_.Path("/engine/vllm/copy").c_str(), 12345, 0), 0);
  const Captured captured = MustCapture();
  EXPECT_EQ(captured.files, 4U);
  EXPECT_EQ(captured.left_out.first, "copy: it belongs to user 12345");
  ASSERT_EQ(chown(tree_.Path("/engine/vllm").c_str(), 12345, 0), 0);
  ExpectError(TryCapture(), EPERM, "--root vllm=DIR");
}

TEST_F(BundleTest, RefusesARootThatOthersMayWriteTo) {
  for (const mode_t mode : {0777, 0770}) {
    chmod(tree_.Path("/engine/vllm").c_str(), mode);
    ExpectError(TryCapture(), EPERM, "chmod go-w");
  }
}

TEST_F(BundleTest, LeavesOutWhatOthersMayWriteTo) {
  chmod(tree_.Path("/engine/vllm/copy").c_str(), 0664);
  chmod(tree_.Path("/engine/triton/ab").c_str(), 0777);
  const Captured captured = MustCapture();
  EXPECT_EQ(captured.files, 2U);
  EXPECT_EQ(captured.left_out.count, 2U);
  EXPECT_EQ(captured.left_out.first, "ab: others may write to it; chmod go-w");
}

TEST_F(BundleTest, FollowsALinkToARootThatIsThisUsersAlone) {
  const std::string before = Picture();
  const std::string root = tree_.Path("/engine/vllm");
  fs::rename(root, tree_.Path("/disk"));
  tree_.Link("/engine/vllm", "../disk");
  EXPECT_EQ(MustCapture().files, 5U);
  fs::remove_all(tree_.Path("/engine/triton"));
  fs::remove(tree_.Path("/disk/copy"));
  EXPECT_EQ(MustRestore().files, 4U);
  EXPECT_EQ(Picture(), before);
  if (geteuid() != 0) GTEST_SKIP() << "needs root to give links away";
  ASSERT_EQ(lchown(root.c_str(), 12345, 0), 0);
  ExpectError(TryCapture(), EPERM, "it is another user's link; give --root vllm=DIR");
}

TEST_F(BundleTest, RootsWithinRootsAreCapturedOnce) {
  roots_.push_back({"all", tree_.Path("/engine")});
  roots_.push_back({"again", tree_.Path("/engine/vllm")});
  tree_.Write("/engine/top", "top");
  place_.directory = tree_.Path("/engine/store");
  const Captured captured = MustCapture();
  EXPECT_EQ(captured.files, 6U) << "nor the store itself";
  const Manifest manifest = Value(Open(Store::Use::kRead).Load(captured.name));
  EXPECT_EQ(manifest.roots.size(), 3U);
}

TEST_F(ArtifactTest, OfNothingIsNone) {
  ExpectError(TryCapture(), ENODATA, "nothing to capture");
  fs::remove_all(tree_.Path("/engine"));
  ASSERT_FALSE(TryCapture());
  EXPECT_FALSE(fs::exists(ManifestPath()));
}

TEST_F(BundleTest, TooMuchIsRefusedAndTheOldOneStays) {
  MustCapture();
  const std::string manifest = TextAt(ManifestPath());
  tree_.Write("/engine/triton/big", Text(3'000'000, 9));
  max_bytes_ = 2'000'000;
  ExpectError(TryCapture(), EFBIG, "--limit");
  EXPECT_EQ(TextAt(ManifestPath()), manifest);
  EXPECT_EQ(FilesBelow(OwnStore() + "/staging"), 0U);
}

TEST_F(BundleTest, ReadsNoMoreThanTheSizeItSaw) {
  const Store store = Open();
  StagedObjects objects(store, Compress::kNever);
  const UniqueFd file(open(tree_.Path("/engine/vllm/copy").c_str(), O_RDONLY));
  Entry entry;
  ExpectError(objects.Add(file.Get(), 699'999, {}, &entry), ESTALE);
  EXPECT_EQ(FilesBelow(OwnStore() + "/staging"), 0U);
  ASSERT_TRUE(objects.Add(file.Get(), 700'000, {}, &entry));
  EXPECT_EQ(entry.size, 700'000U);
}

TEST_F(BundleTest, StopsWhenAsked) {
  Store store = Open();
  std::stop_source stop;
  stop.request_stop();
  CaptureRequest request;
  request.service_id = "svc1";
  request.roots = roots_;
  request.stop = stop.get_token();
  ExpectError(Capture(store, request), ECANCELED);
  EXPECT_EQ(FilesBelow(OwnStore() + "/staging"), 0U);
  EXPECT_EQ(FilesBelow(OwnStore() + "/bundles"), 0U);
}

TEST_F(BundleTest, BringsBackAnObjectThatWasLost) {
  const std::string before = Picture();
  MustCapture();
  fs::remove_all(OwnStore() + "/objects");
  fs::create_directories(OwnStore() + "/objects");
  EXPECT_FALSE(MustCapture().is_unchanged);
  Empty();
  MustRestore();
  EXPECT_EQ(Picture(), before);
}

}  // namespace
}  // namespace ppc::artifact
