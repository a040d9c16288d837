// SPDX-License-Identifier: Apache-2.0
// Whose a store is, where it fails, and what is removed from it.
#include "extras/artifact/store.h"

#include <sched.h>
#include <sys/file.h>
#include <sys/mount.h>
#include <sys/wait.h>

#include <cerrno>
#include <functional>

#include "extras/artifact/tests/fixture.h"

namespace ppc::artifact {
namespace {

class StoreTest : public ArtifactTest {
 protected:
  void ExpectRefused(int code, const std::string& part) {
    const Result<Captured> captured = TryCapture();
    ASSERT_FALSE(captured);
    ExpectError(captured.error(), code, part);
    const Result<Restored> restored = TryRestore();
    ASSERT_FALSE(restored);
    ExpectError(restored.error(), code, part);
  }
  // In a child with mounts of its own; what goes wrong there is its output.
  void InOwnMounts(const std::function<void()>& body) {
    const pid_t child = fork();
    if (child == 0) {
      if (unshare(CLONE_NEWNS) != 0 || mount("", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0) {
        _exit(77);
      }
      body();
      _exit(HasFailure() ? 1 : 0);
    }
    int status = 0;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    ASSERT_TRUE(WIFEXITED(status));
    if (WEXITSTATUS(status) == 77) GTEST_SKIP() << "needs the right to mount";
    EXPECT_EQ(WEXITSTATUS(status), 0);
  }
};

TEST_F(StoreTest, IsItsUsersAlone) {
  Fill();
  MustCapture();
  for (const char* path : {"", "/objects", "/staging", "/bundles", "/bundles/svc1"}) {
    struct stat info {};
    ASSERT_EQ(stat((OwnStore() + path).c_str(), &info), 0) << path;
    EXPECT_EQ(info.st_mode & 077, 0U) << path;
  }
  struct stat key {};
  ASSERT_EQ(stat((OwnStore() + "/key").c_str(), &key), 0);
  EXPECT_EQ(key.st_mode & 0777, 0600U);
  EXPECT_EQ(key.st_size, 32);
}

TEST_F(StoreTest, OpenToOthersIsRefused) {
  Fill();
  MustCapture();
  chmod(OwnStore().c_str(), 0750);
  ExpectRefused(EPERM, "chmod 700");
}

TEST_F(StoreTest, OfAnotherUserIsRefused) {
  if (geteuid() != 0) GTEST_SKIP() << "needs root to give directories away";
  Fill();
  MustCapture();
  ASSERT_EQ(chown(OwnStore().c_str(), 12345, 0), 0);
  ExpectRefused(EPERM, "belongs to user 12345");
}

TEST_F(StoreTest, ThatIsALinkIsRefused) {
  Fill();
  fs::create_directories(place_.directory);
  tree_.Link("/store/" + std::to_string(geteuid()), tree_.Path("/engine"));
  ASSERT_FALSE(TryCapture());
  EXPECT_FALSE(fs::exists(tree_.Path("/engine/objects")));
}

TEST_F(StoreTest, AKeyThatOthersCanReadIsRefused) {
  Fill();
  MustCapture();
  const std::string key = OwnStore() + "/key";
  chmod(key.c_str(), 0640);
  ExpectRefused(EPERM, "mode 0600");
  fs::rename(key, key + "2");
  tree_.Link("/store/" + std::to_string(geteuid()) + "/key", "key2");
  chmod((key + "2").c_str(), 0600);
  ASSERT_FALSE(TryRestore()) << "a link";
  fs::remove(key);
  std::ofstream(key) << "short";
  chmod(key.c_str(), 0600);
  ExpectRefused(EBADMSG, "16 to 4096 bytes");
}

TEST_F(StoreTest, AKeyElsewhereIsReadAndNeverMade) {
  Fill();
  place_.key_file = tree_.Path("/elsewhere.key");
  tree_.Write("/elsewhere.key", "a secret of thirty-two bytes, or");
  chmod(place_.key_file.c_str(), 0600);
  MustCapture();
  EXPECT_FALSE(fs::exists(OwnStore() + "/key"));
  fs::remove(place_.key_file);
  ExpectRefused(ENOKEY, "there is no key file " + place_.key_file);
  EXPECT_FALSE(fs::exists(place_.key_file));
}

// With a wrong key, of a newer version, or not to be read at all.
TEST_F(StoreTest, ABundleThatCannotBeReadIsNotReplaced) {
  Fill();
  MustCapture();
  const std::string bundle = TextAt(ManifestPath());
  tree_.Write("/engine/triton/new", "new");
  const std::string secret = TextAt(OwnStore() + "/key");
  std::ofstream(OwnStore() + "/key", std::ios::binary) << "another secret altogether";
  ExpectRefused(EKEYREJECTED, "another key file");
  EXPECT_EQ(TextAt(ManifestPath()), bundle);
  std::ofstream(OwnStore() + "/key", std::ios::binary) << secret;
  fs::remove(ManifestPath());
  fs::create_directories(ManifestPath());
  ExpectRefused(EISDIR, "bundle svc1/");
  fs::remove(ManifestPath());
  std::ofstream(ManifestPath(), std::ios::binary) << bundle;
  EXPECT_EQ(MustCapture().files, 6U);
}

TEST_F(StoreTest, NeverCapturedIsToldApart) {
  const Result<Restored> none = TryRestore();
  ASSERT_FALSE(none);
  ExpectError(none.error(), ENOENT, "nothing was captured yet");
  EXPECT_FALSE(fs::exists(place_.directory));
  place_.directory.clear();
  const Result<Captured> nowhere = TryCapture();
  ASSERT_FALSE(nowhere);
  ExpectError(nowhere.error(), ENOENT, "PPC_ARTIFACT_DIR");
}

TEST_F(StoreTest, AFullDiskIsSaidAndTheOldBundleStays) {
  Fill();
  fs::create_directories(place_.directory);
  InOwnMounts([this] {
    if (mount("none", place_.directory.c_str(), "tmpfs", 0, "size=1m") != 0) _exit(77);
    MustCapture(Compress::kAlways);
    tree_.Write("/engine/triton/big", Text(4'000'000, 3));
    const Result<Captured> full = TryCapture(Compress::kNever);
    ASSERT_FALSE(full);
    ExpectError(full.error(), ENOSPC, "make room there");
    EXPECT_EQ(FilesBelow(OwnStore() + "/staging"), 0U);
    Empty();
    EXPECT_EQ(MustRestore().files, 5U);
  });
}

// As where there is room for the objects and not for the list.
TEST_F(StoreTest, ObjectsOfAListThatCannotBeSavedGo) {
  Fill();
  const BundleName name = MustCapture().name;
  Store store = Open();
  ASSERT_TRUE(store.Remove(name));
  ASSERT_TRUE(store.Sweep());
  fs::remove_all(OwnStore() + "/bundles/svc1");
  tree_.Link("/store/" + std::to_string(geteuid()) + "/bundles/svc1", "nowhere");
  CaptureRequest request;
  request.service_id = "svc1";
  request.key = key_;
  request.roots = roots_;
  EXPECT_FALSE(Capture(store, request));
  EXPECT_EQ(FilesBelow(OwnStore() + "/objects"), 0U);
}

TEST_F(StoreTest, AFullDiskOfTheEngineRestoresNothing) {
  Fill();
  MustCapture();
  Empty();
  InOwnMounts([this] {
    if (mount("none", tree_.Path("/engine/vllm").c_str(), "tmpfs", 0, "size=64k,mode=0755") != 0) {
      _exit(77);
    }
    const Result<Restored> full = TryRestore();
    ASSERT_FALSE(full);
    ExpectError(full.error(), ENOSPC, "restore to root vllm");
    EXPECT_EQ(Picture(), "");
  });
}

TEST_F(StoreTest, OnAReadOnlyDiskIsReadAndNotWritten) {
  Fill();
  MustCapture();
  InOwnMounts([this] {
    const char* path = place_.directory.c_str();
    if (mount(path, path, nullptr, MS_BIND, nullptr) != 0 ||
        mount("", path, nullptr, MS_BIND | MS_REMOUNT | MS_RDONLY, nullptr) != 0) {
      _exit(77);
    }
    tree_.Write("/engine/triton/new", "new");
    const Result<Captured> refused = TryCapture();
    ASSERT_FALSE(refused);
    ExpectError(refused.error(), EROFS, "make it writable for this user, or give --dir");
    Empty();
    EXPECT_EQ(MustRestore().files, 5U);
  });
}

TEST_F(StoreTest, RemovingABundleLeavesWhatOthersNeed) {
  Fill();
  const BundleName first = MustCapture().name;
  key_["driver"] = "nvidia 560.1";
  tree_.Write("/engine/triton/new", Text(1000, 5));
  const BundleName second = MustCapture().name;
  Store store = Open();
  ASSERT_EQ(store.List().value(),
            (std::vector<BundleName>{
                std::min(first, second, [](auto& a, auto& b) { return a.key_id < b.key_id; }),
                std::max(first, second, [](auto& a, auto& b) { return a.key_id < b.key_id; })}));
  ASSERT_TRUE(store.Remove(first));
  EXPECT_EQ(store.Sweep().value(), 0U);
  Empty();
  EXPECT_EQ(MustRestore().files, 6U);
  ASSERT_TRUE(store.Remove(second));
  EXPECT_EQ(store.Sweep().value(), 5U);
  EXPECT_EQ(FilesBelow(OwnStore() + "/objects"), 0U);
  const Status none = store.Remove(second);
  ASSERT_FALSE(none);
  ExpectError(none.error(), ENOENT, "there is none");
}

TEST_F(StoreTest, WhereLocksMayNotReachOnlyWhatIsOldGoes) {
  place_.is_shared = true;
  Fill();
  const BundleName name = MustCapture().name;
  Store store = Open();
  const auto make_old = [this] {
    const timespec times[2] = {{1'700'000'000, 0}, {1'700'000'000, 0}};
    for (const auto& entry : fs::recursive_directory_iterator(OwnStore() + "/objects")) {
      utimensat(AT_FDCWD, entry.path().c_str(), times, 0);
    }
  };
  ASSERT_TRUE(store.Remove(name));
  EXPECT_EQ(store.Sweep().value(), 0U) << "another's capture may be about to name it";
  make_old();
  EXPECT_EQ(MustCapture().stored_bytes, 0U) << "claims what it finds: that is young again";
  ASSERT_TRUE(store.Remove(name));
  EXPECT_EQ(store.Sweep().value(), 0U);
  make_old();
  EXPECT_EQ(store.Sweep().value(), 4U);
}

TEST_F(StoreTest, NothingIsSweptWhileAListCannotBeRead) {
  Fill();
  MustCapture();
  const size_t objects = FilesBelow(OwnStore() + "/objects");
  std::ofstream(ManifestPath(), std::ios::app) << "x";
  const Result<size_t> swept = Open().Sweep();
  ASSERT_FALSE(swept);
  ExpectError(swept.error(), EBUSY, "ppcctl artifact rm svc1/");
  EXPECT_EQ(FilesBelow(OwnStore() + "/objects"), objects);
}

TEST_F(StoreTest, NothingIsSweptWhileAnotherIsAtWork) {
  Fill();
  MustCapture();
  Store store = Open();
  const Store other = Open(Store::Use::kRead);
  const Result<size_t> swept = store.Sweep();
  ASSERT_FALSE(swept);
  EXPECT_EQ(swept.error().code, EBUSY);
}

TEST_F(StoreTest, WhoKeepsTheLockIsNotWaitedForWithoutLimit) {
  Fill();
  MustCapture();
  const UniqueFd lock(open((OwnStore() + "/lock").c_str(), O_RDONLY));
  ASSERT_EQ(flock(lock.Get(), LOCK_EX), 0);
  for (const Store::Use use : {Store::Use::kRead, Store::Use::kWrite}) {
    const Result<Store> busy = Store::Open(place_, use, /*patience_ms=*/100);
    ASSERT_FALSE(busy);
    ExpectError(busy.error(), EBUSY, "another ppcctl keeps " + OwnStore() + "/lock");
  }
}

// The capture that goes on after it must not keep others out.
TEST_F(StoreTest, ASweepThatFailsLetsOthersInAgain) {
  Fill();
  MustCapture();
  std::ofstream(ManifestPath(), std::ios::app) << "x";
  Store store = Open();
  ASSERT_FALSE(store.Sweep());
  const UniqueFd lock(open((OwnStore() + "/lock").c_str(), O_RDONLY));
  EXPECT_EQ(flock(lock.Get(), LOCK_SH | LOCK_NB), 0);
  EXPECT_NE(flock(lock.Get(), LOCK_EX | LOCK_NB), 0) << "it is kept, and shared";
}

TEST_F(StoreTest, NamesAreTheListsOwn) {
  EXPECT_TRUE(ReadBundleName("svc1"));
  EXPECT_TRUE(ReadBundleName("svc1/" + std::string(32, 'a')));
  for (const char* bad :
       {"", "..", "../x", "svc1/", "svc1/x", "svc1/../../../../../etc/passwd/aaaaa"}) {
    EXPECT_FALSE(ReadBundleName(bad)) << bad;
  }
}

}  // namespace
}  // namespace ppc::artifact
