// SPDX-License-Identifier: Apache-2.0
// Pages of a burn group go even if mapped, once nothing of the group is needed.  By a real
// memory cgroup of v1.
#include "daemon/backend/burn_groups.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "daemon/backend/file_cache.h"
#include "tests/unit/temp_tree.h"
#include "tests/unit/units.h"

namespace ppc {
namespace {

class BurnGroupsTest : public testing::Test {
 protected:
  static constexpr uint64_t kFile = 3 * BurnGroups::kStretch;
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
    for (const pid_t pid : mappers_) {
      kill(pid, SIGKILL);
      (void)waitpid(pid, nullptr, 0);
    }
    while (waitpid(-1, nullptr, 0) > 0) {
    }
    if (!directory_.IsValid()) return;
    EXPECT_EQ(rmdir(cgroup_.c_str()), 0) << "nothing is left behind";
  }
  void Open() {
    Result<std::unique_ptr<BurnGroups>> opened =
        BurnGroups::Open(directory_.Get(), {.program = PPC_TEST_RUNNER, .lanes = 4});
    ASSERT_TRUE(opened.ok()) << opened.error().message;
    groups_ = std::move(*opened);
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
    const pid_t pid = fork();
    if (pid == 0) {
      const void* const at = mmap(nullptr, kFile, PROT_READ, MAP_PRIVATE, file_.Get(), 0);
      if (at == MAP_FAILED) _exit(1);
      for (uint64_t i = 0; i < kFile; i += 4096) (void)*(static_cast<const volatile char*>(at) + i);
      (void)!write(ready[1], "x", 1);
      pause();
      _exit(0);
    }
    mappers_.push_back(pid);
    char byte = 0;
    ASSERT_EQ(read(ready[0], &byte, 1), 1);
    close(ready[0]);
    close(ready[1]);
  }
  size_t Groups() const {
    size_t count = 0;
    for (const auto& entry : std::filesystem::directory_iterator(cgroup_))
      count += entry.is_directory() ? 1 : 0;
    return count;
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
  EXPECT_EQ(Release(0, BurnGroups::kStretch), BurnGroups::kStretch);
  EXPECT_EQ(*Cached(0, BurnGroups::kStretch), 0u);
  EXPECT_EQ(*Cached(BurnGroups::kStretch, kFile - BurnGroups::kStretch),
            kFile - BurnGroups::kStretch);
  EXPECT_EQ(groups_->Emptied(), 1u);
}

TEST_F(BurnGroupsTest, AGroupOfWhichSomethingIsNeededStays) {
  Load(0, kFile);
  EXPECT_EQ(Release(kStep, BurnGroups::kStretch - kStep), 0u);
  EXPECT_EQ(*Cached(0, kFile), kFile);
  EXPECT_EQ(Release(kStep, kStep), 0u) << "released before";
  EXPECT_EQ(Release(0, kStep), kStep);
  EXPECT_EQ(*Cached(0, kFile), kFile - BurnGroups::kStretch);
  EXPECT_EQ(Release(0, BurnGroups::kStretch), BurnGroups::kStretch - kStep) << "the rest is told";
  EXPECT_EQ(Release(0, BurnGroups::kStretch), 0u) << "once";
}

// In another order than it was loaded in, and in parts that are no steps.
TEST_F(BurnGroupsTest, RangesAreReleasedByAnyParts) {
  Load(0, kFile);
  EXPECT_EQ(Release(BurnGroups::kStretch + kMiB, BurnGroups::kStretch), 0u);
  EXPECT_EQ(Release(0, BurnGroups::kStretch - 4096), 0u);
  EXPECT_EQ(Release(BurnGroups::kStretch - 4096, kMiB + 4096), kMiB + 4096);
  EXPECT_EQ(groups_->Emptied(), 2u);
  EXPECT_EQ(*Cached(0, 2 * BurnGroups::kStretch), 0u);
}

// The old group has nothing of it any more.
TEST_F(BurnGroupsTest, WhatIsLoadedAgainIsOfItsNewGroup) {
  Load(0, BurnGroups::kStretch);
  EXPECT_EQ(Release(0, BurnGroups::kStretch - kStep), 0u);
  ASSERT_EQ(posix_fadvise(file_.Get(), BurnGroups::kStretch - kStep, kStep, POSIX_FADV_DONTNEED),
            0);
  Load(BurnGroups::kStretch - kStep, BurnGroups::kStretch + kStep);
  EXPECT_EQ(groups_->Emptied(), 1u);
  EXPECT_EQ(*Cached(BurnGroups::kStretch - kStep, BurnGroups::kStretch + kStep),
            BurnGroups::kStretch + kStep);
  EXPECT_EQ(Release(0, BurnGroups::kStretch - kStep), BurnGroups::kStretch - kStep);
}

TEST_F(BurnGroupsTest, WhatIsLoadedAgainIntoItsGroupStays) {
  Load(0, BurnGroups::kStretch / 2);
  ASSERT_EQ(posix_fadvise(file_.Get(), 0, 0, POSIX_FADV_DONTNEED), 0);
  Load(0, BurnGroups::kStretch / 2);
  EXPECT_EQ(groups_->Emptied(), 0u);
  EXPECT_EQ(*Cached(0, BurnGroups::kStretch / 2), BurnGroups::kStretch / 2);
}

TEST_F(BurnGroupsTest, EmptyGroupsGo) {
  Load(0, kFile);
  EXPECT_EQ(Release(0, kFile), kFile);
  Load(0, kFile);
  EXPECT_LE(Groups(), 4u);
}

TEST_F(BurnGroupsTest, AStretchForWhichNoGroupCanBeMadeIsSaid) {
  const std::string taken = cgroup_ + "/ppc-burn-" + std::to_string(getpid()) + "-2";
  ASSERT_EQ(mkdir(taken.c_str(), 0755), 0);
  Load(0, BurnGroups::kStretch);
  ppc_load load{};
  load.offset = BurnGroups::kStretch;
  load.length = kStep;
  EXPECT_EQ(groups_->LoadFile(file_.Get(), kNumber, &load, -1), BurnGroups::kNoGroup);
  Load(BurnGroups::kStretch, kStep);
}

TEST_F(BurnGroupsTest, GroupsOfARunnerThatIsGoneAreRemoved) {
  const std::string old = cgroup_ + "/ppc-burn-" + std::to_string(1 << 30) + "-1";
  ASSERT_EQ(mkdir(old.c_str(), 0755), 0);
  Open();
  EXPECT_NE(access(old.c_str(), F_OK), 0);
}

TEST_F(BurnGroupsTest, WhereNoGroupCanBeMadeItIsSaid) {
  const UniqueFd other(open(tree_.Path("/").c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  EXPECT_FALSE(BurnGroups::Open(other.Get(), {.program = PPC_TEST_RUNNER}).ok());
}

}  // namespace
}  // namespace ppc
