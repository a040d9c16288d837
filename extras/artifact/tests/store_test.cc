// SPDX-License-Identifier: Apache-2.0
// The store: its owner, its failures, removal, and the values kept for the next start.
#include "extras/artifact/store.h"

#include <sched.h>
#include <sys/file.h>
#include <sys/mount.h>

#include <cerrno>
#include <functional>

#include "extras/artifact/tests/fixture.h"
#include "extras/artifact/values.h"
#include "tests/unit/child.h"

namespace ppc::artifact {
namespace {

class StoreTest : public ArtifactTest {
 protected:
  void SetUp() override {
    ArtifactTest::SetUp();
    Fill();
  }
  void ExpectRefused(int code, const std::string& part) {
    ExpectError(TryCapture(), code, part);
    ExpectError(TryRestore(), code, part);
  }
  // Runs in a child with mounts of its own; failures are its output.
  void InOwnMounts(const std::function<void()>& body) {
    const int status = EndOf(StartChild([&] {
      if (unshare(CLONE_NEWNS) != 0 || mount("", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0) {
        return 77;
      }
      try {
        body();
      } catch (const std::exception& error) {
        ADD_FAILURE() << error.what();
      }
      return HasFailure() ? 1 : 0;
    }));
    if (status == 77) GTEST_SKIP() << "needs the right to mount";
    EXPECT_EQ(status, 0);
  }
};

TEST_F(StoreTest, IsItsUsersAlone) {
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
  MustCapture();
  chmod(OwnStore().c_str(), 0750);
  ExpectRefused(EPERM, "chmod 700");
}

TEST_F(StoreTest, OfAnotherUserIsRefused) {
  if (geteuid() != 0) GTEST_SKIP() << "needs root to give directories away";
  MustCapture();
  ASSERT_EQ(chown(OwnStore().c_str(), 12345, 0), 0);
  ExpectRefused(EPERM, "belongs to user 12345");
}

TEST_F(StoreTest, ThatIsALinkIsRefused) {
  fs::create_directories(place_.directory);
  tree_.Link("/store/" + std::to_string(geteuid()), tree_.Path("/engine"));
  ASSERT_FALSE(TryCapture());
  EXPECT_FALSE(fs::exists(tree_.Path("/engine/objects")));
}

TEST_F(StoreTest, AKeyThatOthersCanReadIsRefused) {
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
  place_.key_file = tree_.Path("/elsewhere.key");
  tree_.Write("/elsewhere.key", "a secret of thirty-two bytes, or");
  chmod(place_.key_file.c_str(), 0600);
  MustCapture();
  EXPECT_FALSE(fs::exists(OwnStore() + "/key"));
  fs::remove(place_.key_file);
  ExpectRefused(ENOKEY, "there is no key file " + place_.key_file);
  EXPECT_FALSE(fs::exists(place_.key_file));
}

// Sealed with a wrong key, of a newer version, or unreadable.
TEST_F(StoreTest, ABundleThatCannotBeReadIsNotReplaced) {
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

TEST_F(ArtifactTest, NeverCapturedIsToldApart) {
  ExpectError(TryRestore(), ENOENT, "nothing was captured yet");
  EXPECT_FALSE(fs::exists(place_.directory));
  place_.directory.clear();
  ExpectError(TryCapture(), ENOENT, "PPC_ARTIFACT_DIR");
}

TEST_F(StoreTest, AFullDiskIsSaidAndTheOldBundleStays) {
  fs::create_directories(place_.directory);
  InOwnMounts([this] {
    if (mount("none", place_.directory.c_str(), "tmpfs", 0, "size=1m") != 0) _exit(77);
    MustCapture(Compress::kAlways);
    tree_.Write("/engine/triton/big", Text(4'000'000, 3));
    ExpectError(TryCapture(Compress::kNever), ENOSPC, "make room there");
    EXPECT_EQ(FilesBelow(OwnStore() + "/staging"), 0U);
    Empty();
    EXPECT_EQ(MustRestore().files, 5U);
  });
}

// The disk has room for the objects but not for the list.
TEST_F(StoreTest, ObjectsOfAListThatCannotBeSavedGo) {
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
  MustCapture();
  Empty();
  InOwnMounts([this] {
    if (mount("none", tree_.Path("/engine/vllm").c_str(), "tmpfs", 0, "size=64k,mode=0755") != 0) {
      _exit(77);
    }
    ExpectError(TryRestore(), ENOSPC, "restore to root vllm");
    EXPECT_EQ(Picture(), "");
  });
}

TEST_F(StoreTest, OnAReadOnlyDiskIsReadAndNotWritten) {
  MustCapture();
  InOwnMounts([this] {
    const char* path = place_.directory.c_str();
    if (mount(path, path, nullptr, MS_BIND, nullptr) != 0 ||
        mount("", path, nullptr, MS_BIND | MS_REMOUNT | MS_RDONLY, nullptr) != 0) {
      _exit(77);
    }
    tree_.Write("/engine/triton/new", "new");
    ExpectError(TryCapture(), EROFS, "make it writable for this user, or give --dir");
    Empty();
    EXPECT_EQ(MustRestore().files, 5U);
  });
}

TEST_F(StoreTest, RemovingABundleLeavesWhatOthersNeed) {
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
  ExpectError(store.Remove(second), ENOENT, "there is none");
}

TEST_F(StoreTest, WhereLocksMayNotReachOnlyWhatIsOldGoes) {
  place_.is_shared = true;
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
  MustCapture();
  const size_t objects = FilesBelow(OwnStore() + "/objects");
  std::ofstream(ManifestPath(), std::ios::app) << "x";
  ExpectError(Open().Sweep(), EBUSY, "ppcctl artifact rm svc1/");
  EXPECT_EQ(FilesBelow(OwnStore() + "/objects"), objects);
}

TEST_F(StoreTest, NothingIsSweptWhileAnotherIsAtWork) {
  MustCapture();
  Store store = Open();
  const Store other = Open(Store::Use::kRead);
  ExpectError(store.Sweep(), EBUSY);
}

TEST_F(StoreTest, WhoKeepsTheLockIsNotWaitedForWithoutLimit) {
  MustCapture();
  const UniqueFd lock(open((OwnStore() + "/lock").c_str(), O_RDONLY));
  ASSERT_EQ(flock(lock.Get(), LOCK_EX), 0);
  for (const Store::Use use : {Store::Use::kRead, Store::Use::kWrite}) {
    ExpectError(Store::Open(place_, use, /*patience_ms=*/100), EBUSY,
                "another ppcctl keeps " + OwnStore() + "/lock");
  }
}

// A capture that continues afterwards must not block others.
TEST_F(StoreTest, ASweepThatFailsLetsOthersInAgain) {
  MustCapture();
  std::ofstream(ManifestPath(), std::ios::app) << "x";
  Store store = Open();
  ASSERT_FALSE(store.Sweep());
  const UniqueFd lock(open((OwnStore() + "/lock").c_str(), O_RDONLY));
  EXPECT_EQ(flock(lock.Get(), LOCK_SH | LOCK_NB), 0);
  EXPECT_NE(flock(lock.Get(), LOCK_EX | LOCK_NB), 0) << "it is kept, and shared";
}

TEST_F(ArtifactTest, NamesAreTheListsOwn) {
  EXPECT_TRUE(ReadBundleName("svc1"));
  EXPECT_TRUE(ReadBundleName("svc1/" + std::string(32, 'a')));
  for (const char* bad :
       {"", "..", "../x", "svc1/", "svc1/x", "svc1/../../../../../etc/passwd/aaaaa"}) {
    EXPECT_FALSE(ReadBundleName(bad)) << bad;
  }
}

class ValuesTest : public ArtifactTest {
 protected:
  std::string File() const {
    return place_.directory + "/" + std::to_string(geteuid()) + "/values/svc1";
  }
};

TEST_F(ValuesTest, AreReadBackAsTheyWereKept) {
  const Store store = Open();
  EXPECT_TRUE(LoadValues(store, "svc1")->empty());
  const Values values = {
      {"KV_CACHE_BYTES", "123"}, {"A", "it's \"quoted\" $x = y"}, {"_b2", "\xc3\xa4"}};
  ASSERT_TRUE(SaveValues(store, "svc1", values));
  EXPECT_EQ(*LoadValues(store, "svc1"), values);
  EXPECT_TRUE(LoadValues(store, "svc2")->empty());
  struct stat info {};
  ASSERT_EQ(stat(File().c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0600U);
  ASSERT_TRUE(SaveValues(store, "svc1", {}));
  EXPECT_NE(stat(File().c_str(), &info), 0);
  EXPECT_TRUE(SaveValues(store, "svc1", {}));
}

TEST_F(ValuesTest, NamesAndValuesAreBounded) {
  EXPECT_EQ(ReadValue("A=b=c")->second, "b=c");
  EXPECT_EQ(ReadValue("A=")->second, "");
  for (const char* bad : {"", "A", "=x", "1A=x", "A B=x", "A-B=x", "A=\n", "A=x\x1b[0m", "A=\x7f"})
    EXPECT_EQ(ReadValue(bad).error().code, EINVAL) << bad;
  EXPECT_TRUE(ReadValue(std::string(64, 'N') + "=" + std::string(4096, 'v')));
  EXPECT_FALSE(ReadValue(std::string(65, 'N') + "=v"));
  EXPECT_FALSE(ReadValue("N=" + std::string(4097, 'v')));
  Values many;
  for (int i = 0; i < 65; i++) many["N" + std::to_string(i)] = "v";
  const Store store = Open();
  EXPECT_EQ(SaveValues(store, "svc1", many).error().code, E2BIG);
  EXPECT_EQ(SaveValues(store, "../x", {{"A", "b"}}).error().code, EINVAL);
}

TEST_F(ValuesTest, WhatSaysWhatIsRunIsNotCarried) {
  for (const char* name : {"PATH", "LD_PRELOAD", "LD_LIBRARY_PATH", "PYTHONPATH", "PYTHONSTARTUP",
                           "BASH_ENV", "PPC_SOCKET", "HOME", "IFS"})
    EXPECT_EQ(ReadValue(std::string(name) + "=x").error().code, EINVAL) << name;
  EXPECT_TRUE(ReadValue("VLLM_PATH=x"));
}

TEST_F(ValuesTest, ChangedOrForgedOnesAreRefused) {
  {
    const Store store = Open();
    ASSERT_TRUE(SaveValues(store, "svc1", {{"A", "b"}}));
    ASSERT_TRUE(SaveValues(store, "svc2", {{"A", "c"}}));
  }
  const std::string good = TextAt(File());
  const std::string other = TextAt(File().substr(0, File().size() - 4) + "svc2");
  std::string changed = good;
  changed[changed.find("A=b") + 2] = 'x';
  for (const auto& [text, code] : {std::pair(changed, EKEYREJECTED),
                                   {std::string(), EKEYREJECTED},
                                   {good.substr(0, good.size() - 1), EKEYREJECTED},
                                   {"ppc-values 1 svc1\nA=b\n", EKEYREJECTED},
                                   {other, EBADMSG}}) {
    std::ofstream(File(), std::ios::binary | std::ios::trunc) << text;
    const Store store = Open();
    ExpectError(LoadValues(store, "svc1"), code, "svc1");
  }
}

TEST_F(ValuesTest, SweepingLeavesThem) {
  Store store = Open();
  ASSERT_TRUE(SaveValues(store, "svc1", {{"A", "b"}}));
  ASSERT_TRUE(store.Sweep());
  EXPECT_EQ(LoadValues(store, "svc1")->size(), 1U);
}

}  // namespace
}  // namespace ppc::artifact
