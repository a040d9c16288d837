// SPDX-License-Identifier: Apache-2.0
// Pages of a burn group go even if mapped, once nothing of the group is needed.  By a real
// memory cgroup of v1.  Where groups of a cgroup of v2 stand, by files that look like one; by the
// kernel itself: tests/e2e/087-burn-groups.sh.
#include "daemon/backend/burn_groups.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "daemon/backend/burn_parent.h"
#include "daemon/backend/file_cache.h"
#include "daemon/base/files.h"
#include "tests/unit/child.h"
#include "tests/unit/has.h"
#include "tests/unit/temp_tree.h"
#include "tests/unit/units.h"

namespace ppc {
namespace {

size_t DirectoriesIn(const std::string& path) {
  size_t count = 0;
  for (const auto& entry : std::filesystem::directory_iterator(path))
    count += entry.is_directory() ? 1 : 0;
  return count;
}

class BurnGroupsTest : public testing::Test {
 protected:
  static constexpr uint64_t kFile = 3 * BurnGroups::kGroupBytes;
  static constexpr uint64_t kStep = 2 * kMiB;
  static constexpr uint64_t kNumber = 7;

  void SetUp() override {
    cgroup_ = "/sys/fs/cgroup/memory/ppc-test-" + std::to_string(getpid());
    if (geteuid() != 0 || mkdir(cgroup_.c_str(), 0755) != 0) GTEST_SKIP() << "no cgroup v1 to make";
    directory_.Reset(open(cgroup_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    tree_.Write("/file", std::string(kFile, 'x'));
    file_.Reset(open(tree_.Path("/file").c_str(), O_RDWR | O_CLOEXEC));
    ASSERT_EQ(fsync(file_.Get()), 0);
    ASSERT_EQ(posix_fadvise(file_.Get(), 0, 0, POSIX_FADV_DONTNEED), 0);
    if (*Cached(0, kFile) != 0) GTEST_SKIP() << "a file here stays cached";
    Open();
  }
  void TearDown() override {
    groups_.reset();
    for (const pid_t pid : mappers_) KillAndReap(pid);
    while (waitpid(-1, nullptr, 0) > 0) {
    }
    if (!directory_.IsValid()) return;
    EXPECT_EQ(rmdir(cgroup_.c_str()), 0) << "nothing is left behind";
  }
  void Open() {
    groups_ = Value(BurnGroups::Open(Value(Cgroup::Open(cgroup_, SysRoots{})),
                                     {.program = PPC_TEST_RUNNER, .lanes = 4}));
  }
  Result<uint64_t> Cached(uint64_t offset, uint64_t length) {
    return CachedBytes(file_.Get(), offset, length);
  }
  void Load(uint64_t offset, uint64_t length) {
    for (uint64_t at = offset; at < offset + length; at += kStep) {
      ppc_load load{};
      load.offset = at;
      load.length = kStep;
      ASSERT_EQ(groups_->LoadFile(file_.Get(), kNumber, &load, -1), 0);
      ASSERT_EQ(load.loaded, kStep);
    }
  }
  uint64_t Release(uint64_t offset, uint64_t length) {
    return groups_->Release(kNumber, offset, length);
  }
  // A process that has touched each page of the file and keeps it mapped.
  void Map() {
    std::array<int, 2> ready{};
    ASSERT_EQ(pipe2(ready.data(), O_CLOEXEC), 0);
    mappers_.push_back(StartChild([&] {
      const void* const at = mmap(nullptr, kFile, PROT_READ, MAP_PRIVATE, file_.Get(), 0);
      if (at == MAP_FAILED) return;
      for (uint64_t i = 0; i < kFile; i += 4096) (void)*(static_cast<const volatile char*>(at) + i);
      (void)!write(ready[1], "x", 1);
      pause();
    }));
    char byte = 0;
    ASSERT_EQ(read(ready[0], &byte, 1), 1);
    close(ready[0]);
    close(ready[1]);
  }

  const TempTree tree_;
  std::string cgroup_;
  UniqueFd directory_;
  UniqueFd file_;
  std::unique_ptr<BurnGroups> groups_;
  std::vector<pid_t> mappers_;
};

TEST_F(BurnGroupsTest, WhatTwoProcessesMapGoesWithItsGroup) {
  Load(0, kFile);
  Map();
  Map();
  EXPECT_EQ(Release(0, BurnGroups::kGroupBytes), BurnGroups::kGroupBytes);
  EXPECT_EQ(*Cached(0, BurnGroups::kGroupBytes), 0u);
  EXPECT_EQ(*Cached(BurnGroups::kGroupBytes, kFile - BurnGroups::kGroupBytes),
            kFile - BurnGroups::kGroupBytes);
  EXPECT_EQ(groups_->Emptied(), 1u);
}

TEST_F(BurnGroupsTest, AGroupOfWhichSomethingIsNeededStays) {
  Load(0, kFile);
  EXPECT_EQ(Release(kStep, BurnGroups::kGroupBytes - kStep), 0u);
  EXPECT_EQ(*Cached(0, kFile), kFile);
  EXPECT_EQ(Release(kStep, kStep), 0u) << "released before";
  EXPECT_EQ(Release(0, kStep), kStep);
  EXPECT_EQ(*Cached(0, kFile), kFile - BurnGroups::kGroupBytes);
  EXPECT_EQ(Release(0, BurnGroups::kGroupBytes), BurnGroups::kGroupBytes - kStep)
      << "the rest is reported";
  EXPECT_EQ(Release(0, BurnGroups::kGroupBytes), 0u) << "once";
}

TEST_F(BurnGroupsTest, LoadsThatFailFillNoGroup) {
  const UniqueFd unreadable(open("/dev/null", O_WRONLY | O_CLOEXEC));
  for (uint64_t at = 0; at < 2 * BurnGroups::kGroupBytes; at += kStep) {
    ppc_load load{};
    load.offset = at;
    load.length = kStep;
    (void)groups_->LoadFile(unreadable.Get(), kNumber, &load, -1);
    EXPECT_EQ(load.loaded, 0u);
  }
  Load(0, BurnGroups::kGroupBytes);
  EXPECT_EQ(Release(0, BurnGroups::kGroupBytes), BurnGroups::kGroupBytes);
  EXPECT_EQ(groups_->Emptied(), 1u);
}

// In another order than it was loaded in, and in parts that are no steps.
TEST_F(BurnGroupsTest, RangesAreReleasedByAnyParts) {
  Load(0, kFile);
  EXPECT_EQ(Release(BurnGroups::kGroupBytes + kMiB, BurnGroups::kGroupBytes), 0u);
  EXPECT_EQ(Release(0, BurnGroups::kGroupBytes - 4096), 0u);
  EXPECT_EQ(Release(BurnGroups::kGroupBytes - 4096, kMiB + 4096), kMiB + 4096);
  EXPECT_EQ(groups_->Emptied(), 2u);
  EXPECT_EQ(*Cached(0, 2 * BurnGroups::kGroupBytes), 0u);
}

// The old group has nothing of it any more.
TEST_F(BurnGroupsTest, WhatIsLoadedAgainIsOfItsNewGroup) {
  Load(0, BurnGroups::kGroupBytes);
  EXPECT_EQ(Release(0, BurnGroups::kGroupBytes - kStep), 0u);
  ASSERT_EQ(posix_fadvise(file_.Get(), BurnGroups::kGroupBytes - kStep, kStep, POSIX_FADV_DONTNEED),
            0);
  Load(BurnGroups::kGroupBytes - kStep, BurnGroups::kGroupBytes + kStep);
  EXPECT_EQ(groups_->Emptied(), 1u);
  EXPECT_EQ(*Cached(BurnGroups::kGroupBytes - kStep, BurnGroups::kGroupBytes + kStep),
            BurnGroups::kGroupBytes + kStep);
  EXPECT_EQ(Release(0, BurnGroups::kGroupBytes - kStep), BurnGroups::kGroupBytes - kStep);
}

TEST_F(BurnGroupsTest, WhatIsLoadedAgainIntoItsGroupStays) {
  Load(0, BurnGroups::kGroupBytes / 2);
  ASSERT_EQ(posix_fadvise(file_.Get(), 0, 0, POSIX_FADV_DONTNEED), 0);
  Load(0, BurnGroups::kGroupBytes / 2);
  EXPECT_EQ(groups_->Emptied(), 0u);
  EXPECT_EQ(*Cached(0, BurnGroups::kGroupBytes / 2), BurnGroups::kGroupBytes / 2);
}

TEST_F(BurnGroupsTest, EmptyGroupsGo) {
  Load(0, kFile);
  EXPECT_EQ(Release(0, kFile), kFile);
  Load(0, kFile);
  EXPECT_LE(DirectoriesIn(cgroup_), 4u);
}

TEST_F(BurnGroupsTest, OfALargeMemoryThereAreNoMoreGroups) {
  constexpr uint64_t kLarge = BurnGroups::kMostGroups * kFile;
  std::ofstream(cgroup_ + "/memory.limit_in_bytes") << kLarge;
  groups_.reset();
  Open();
  Load(0, kFile);
  EXPECT_EQ(DirectoriesIn(cgroup_), 1u);
  EXPECT_EQ(Release(0, kFile), kFile);
}

TEST_F(BurnGroupsTest, AStretchForWhichNoGroupCanBeMadeIsSaid) {
  const std::string taken = cgroup_ + "/ppc-burn-" + std::to_string(getpid()) + "-2";
  ASSERT_EQ(mkdir(taken.c_str(), 0755), 0);
  Load(0, BurnGroups::kGroupBytes);
  ppc_load load{};
  load.offset = BurnGroups::kGroupBytes;
  load.length = kStep;
  EXPECT_EQ(groups_->LoadFile(file_.Get(), kNumber, &load, -1), BurnGroups::kNoGroup);
  Load(BurnGroups::kGroupBytes, kStep);
}

TEST_F(BurnGroupsTest, GroupsOfARunnerThatIsGoneAreRemoved) {
  const std::string old = cgroup_ + "/ppc-burn-" + std::to_string(1 << 30) + "-1";
  ASSERT_EQ(mkdir(old.c_str(), 0755), 0);
  Open();
  EXPECT_NE(access(old.c_str(), F_OK), 0);
}

constexpr const char* kTop = "/sys/fs/cgroup";
constexpr const char* kGone = "ppc-burn-1073741824-1";  // of a process that there is not

class BurnParentTest : public testing::Test {
 protected:
  void Write(const std::string& path, const std::string& text) { tree_.Write(kTop + path, text); }
  std::string Read(const std::string& path) const { return *ReadFile(tree_.Path(kTop + path)); }
  bool Exists(const std::string& path) const {
    return access(tree_.Path(kTop + path).c_str(), F_OK) == 0;
  }
  void Make(const std::string& path) {
    std::filesystem::create_directories(tree_.Path(kTop + path));
  }
  void Group(const std::string& path, uint64_t max, uint64_t current) {
    Write(path + "/memory.max", max == 0 ? "max\n" : std::to_string(max) + "\n");
    Write(path + "/memory.current", std::to_string(current) + "\n");
    Write(path + "/cgroup.subtree_control", "\n");
  }
  // The place of a group, as if the kernel had made its files.
  std::string Place(const std::string& group, const std::string& around) {
    struct stat st {};
    EXPECT_EQ(stat(tree_.Path(kTop + group).c_str(), &st), 0);
    const std::string place = around + "/ppc-burn-" + std::to_string(st.st_ino);
    Write(place + "/cgroup.subtree_control", "");
    Write(place + "/memory.high", "");
    Write(place + "/memory.current", "0\n");
    return place;
  }
  Cgroup Payer(const std::string& group) {
    return std::move(*Cgroup::Open(group, SysRoots{tree_.Root(), tree_.Root()}));
  }
  std::unique_ptr<BurnParent> Open(const std::string& group) {
    return Value(BurnParent::Open(Payer(group)));
  }
  TempTree tree_;
};

TEST_F(BurnParentTest, TheGroupsBesideGetWhatThePayerLeaves) {
  Group("/pod/one", 1000 * kMiB, 300 * kMiB);
  const std::string place = Place("/pod/one", "/pod");
  const std::unique_ptr<BurnParent> parent = Open("/pod/one");
  EXPECT_EQ(Read(place + "/cgroup.subtree_control"), "+memory");
  EXPECT_EQ(Read(place + "/memory.high"), std::to_string(684 * kMiB)) << "less the margin";
  Write("/pod/one/memory.current", std::to_string(990 * kMiB));
  Write(place + "/memory.high", "");
  Write(place + "/memory.current", std::to_string(600 * kMiB));
  EXPECT_TRUE(parent->UpdateLimit()) << "to be looked at soon";
  EXPECT_EQ(Read(place + "/memory.high"), std::to_string(4 * kMiB)) << "for the loaders";
  EXPECT_EQ(parent->payer().Used(), 1590 * kMiB) << "together";
  Write("/pod/one/memory.max", "max");
  Write(place + "/memory.high", "");
  EXPECT_FALSE(parent->UpdateLimit());
  EXPECT_EQ(Read(place + "/memory.high"), "max");
}

TEST_F(BurnParentTest, BelowAGroupThatHasChildrenItsOwnLimitCounts) {
  Group("/pod/one", 1000 * kMiB, 300 * kMiB);
  Write("/pod/one/cgroup.subtree_control", "cpu memory\n");
  const std::string place = Place("/pod/one", "/pod/one");
  Write(place + "/memory.current", std::to_string(100 * kMiB));
  const std::unique_ptr<BurnParent> parent = Open("/pod/one");
  EXPECT_FALSE(parent->UpdateLimit());
  EXPECT_EQ(Read(place + "/memory.high"), "");
  EXPECT_EQ(parent->payer().Used(), 300 * kMiB);
}

TEST_F(BurnParentTest, AGroupWithoutMemoryFilesIsItsAncestors) {
  Group("/pod", 1000 * kMiB, 300 * kMiB);
  Make("/pod/one");
  const std::string place = Place("/pod", "");
  (void)Open("/pod/one");
  EXPECT_EQ(Read(place + "/cgroup.subtree_control"), "+memory");
}

TEST_F(BurnParentTest, NowhereBesideTheRootOfWhatIsSeen) {
  Group("", 1000 * kMiB, 300 * kMiB);
  EXPECT_EQ(BurnParent::Open(Payer("/")).error().code, ENOENT);
}

TEST_F(BurnParentTest, WhereTheKernelRefusesNothingIsLeft) {
  Group("/pod/one", 1000 * kMiB, 300 * kMiB);
  EXPECT_FALSE(BurnParent::Open(Payer("/pod/one")).ok()) << "a directory that is no cgroup";
  EXPECT_EQ(DirectoriesIn(tree_.Path("/sys/fs/cgroup/pod")), 1u);
}

TEST_F(BurnParentTest, GroupsOfTheDeadAreRemovedAndThoseOfTheLivingStay) {
  Group("/pod/one", 1000 * kMiB, 300 * kMiB);
  Group("/pod/two", 1000 * kMiB, 300 * kMiB);
  const std::string own = Place("/pod/one", "/pod");
  const std::string other = Place("/pod/two", "/pod");
  const std::string living = "/ppc-burn-" + std::to_string(getppid()) + "-1";
  for (const std::string& group : {own + "/" + kGone, own + living, other + "/" + kGone})
    Make(group);
  Make("/pod/ppc-burn-7/" + std::string(kGone));  // of a payer that is gone
  Make("/pod/ppc-burn-8" + living);
  (void)Open("/pod/one");
  EXPECT_FALSE(Exists(own + "/" + kGone));
  EXPECT_TRUE(Exists(own + living));
  EXPECT_TRUE(Exists(other + "/" + kGone)) << "its own next runner's";
  EXPECT_FALSE(Exists("/pod/ppc-burn-7"));
  EXPECT_TRUE(Exists("/pod/ppc-burn-8" + living));
}

// A look for each of very many services would cost as much as there are services.
TEST_F(BurnParentTest, ADirectoryIsSearchedForWhatIsLeftOnce) {
  Group("/pod/one", 1000 * kMiB, 300 * kMiB);
  Group("/pod/two", 1000 * kMiB, 300 * kMiB);
  (void)Place("/pod/one", "/pod");
  (void)Place("/pod/two", "/pod");
  Make("/pod/ppc-burn-7");
  (void)Open("/pod/one");
  EXPECT_FALSE(Exists("/pod/ppc-burn-7"));
  Make("/pod/ppc-burn-7");
  (void)Open("/pod/two");
  EXPECT_TRUE(Exists("/pod/ppc-burn-7"));
}

TEST_F(BurnParentTest, AGroupIsEmptiedByWhatTheKernelHas) {
  Group("/pod/one", 1000 * kMiB, 300 * kMiB);
  const std::string place = Place("/pod/one", "/pod");
  const std::string name = BurnParent::NameOf(1);
  const auto emptied = [&](const std::unique_ptr<BurnParent>& parent) {
    UniqueFd group = Value(parent->Make(name));
    for (const char* const file : {"/memory.reclaim", "/memory.high"})
      Write(place + "/" + name + file, "");
    Write(place + "/" + name + "/memory.current", "4096");
    parent->Empty(group.Get());
  };
  emptied(Open("/pod/one"));
  EXPECT_EQ(Read(place + "/" + name + "/memory.high"), "max") << "Linux before 5.19";
  std::filesystem::remove_all(tree_.Path(kTop + place + "/" + name));
  Write(place + "/memory.reclaim", "");
  emptied(Open("/pod/one"));
  EXPECT_EQ(Read(place + "/" + name + "/memory.reclaim"), "4096");
  EXPECT_EQ(Read(place + "/" + name + "/memory.high"), "");
}

}  // namespace
}  // namespace ppc
