// SPDX-License-Identifier: Apache-2.0
// What is told of the page cache of an open file.
#include "daemon/backend/file_cache.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <string>

#include "daemon/base/unique_fd.h"
#include "tests/unit/child.h"
#include "tests/unit/hidden_call.h"
#include "tests/unit/temp_tree.h"

namespace ppc {
namespace {

bool WriteTo(const std::string& path, const std::string& text) {
  const UniqueFd fd(open(path.c_str(), O_WRONLY | O_CLOEXEC));
  return write(fd.Get(), text.data(), text.size()) > 0;
}

TEST(FileCache, BytesThatAreNotOnTheDiskYet) {
  const TempTree tree;
  constexpr size_t kBytes = 1 << 20;
  tree.Write("/file", std::string(kBytes, 'x'));
  const UniqueFd fd(open(tree.Path("/file").c_str(), O_RDWR | O_CLOEXEC));
  ASSERT_EQ(fsync(fd.Get()), 0);
  const Result<uint64_t> clean = DirtyBytes(fd.Get(), 0, 0);
  if (!clean && clean.error().code == ENOTSUP) GTEST_SKIP() << "this kernel does not tell";
  EXPECT_EQ(*clean, 0u);
  ASSERT_EQ(pwrite(fd.Get(), "y", 1, 4096), 1);
  EXPECT_GE(*DirtyBytes(fd.Get(), 0, 0), 4096u);
  EXPECT_EQ(*CachedBytes(fd.Get(), 0, 0), kBytes);
  ASSERT_EQ(fsync(fd.Get()), 0);
  EXPECT_EQ(*DirtyBytes(fd.Get(), 0, 0), 0u);
}

// A file whose end the disk cannot read: its loop device's file was cut.
TEST(FileCache, ALoadThatFailedLeavesNoPageWithoutContent) {
  constexpr uint64_t kMiB = 1 << 20;
  constexpr uint64_t kFile = 16 * kMiB;
  if (geteuid() != 0) GTEST_SKIP() << "only root mounts";
  const TempTree tree;
  tree.Write("/image", "");
  std::filesystem::create_directory(tree.Path("/mnt"));
  const std::string image = tree.Path("/image");
  const std::string mount = tree.Path("/mnt");
  ASSERT_EQ(truncate(image.c_str(), 2 * kFile), 0);
  const std::string make = "mkfs.ext4 -q -O ^has_journal " + image + " && mount -o loop " + image +
                           " " + mount + " && head -c 16M /dev/zero >" + mount +
                           "/file && mount -o remount,ro " + mount;
  if (std::system(("(" + make + ") 2>/dev/null").c_str()) != 0)
    GTEST_SKIP() << "no ext4 on a loop device";
  ASSERT_EQ(truncate(image.c_str(), kFile), 0);
  {
    const UniqueFd fd(open((mount + "/file").c_str(), O_RDONLY | O_CLOEXEC));
    ASSERT_EQ(posix_fadvise(fd.Get(), 0, 0, POSIX_FADV_DONTNEED), 0);
    const auto load = [&](uint64_t at) { return LoadFile(fd.Get(), at, 2 * kMiB, nullptr); };
    const Result<FileLoad> first = load(0);
    EXPECT_TRUE(first && first->loaded == 2 * kMiB);
    const Result<FileLoad> last = load(kFile - 2 * kMiB);
    EXPECT_TRUE(!last && last.error().code == EIO);
    EXPECT_EQ(*CachedBytes(fd.Get(), kFile - 2 * kMiB, 2 * kMiB), 0u);
    EXPECT_EQ(*CachedBytes(fd.Get(), 0, 2 * kMiB), 2 * kMiB);
  }
  EXPECT_EQ(umount(mount.c_str()), 0);
}

// A cgroup whose memory is another's but for a little: reading in earnest kills in it.
TEST(FileCache, ALoadAheadKillsNothingForMemory) {
  constexpr uint64_t kMiB = 1 << 20;
  const std::string group = "/sys/fs/cgroup/memory/ppc-file-cache-" + std::to_string(getpid());
  if (geteuid() != 0 || mkdir(group.c_str(), 0755) != 0) GTEST_SKIP() << "no cgroup v1 to make";
  ASSERT_TRUE(WriteTo(group + "/memory.limit_in_bytes", std::to_string(32 * kMiB)));
  const TempTree tree;
  tree.Write("/file", std::string(16 * kMiB, 'x'));
  const UniqueFd fd(open(tree.Path("/file").c_str(), O_RDWR | O_CLOEXEC));
  ASSERT_EQ(fsync(fd.Get()), 0);
  ASSERT_EQ(posix_fadvise(fd.Get(), 0, 0, POSIX_FADV_DONTNEED), 0);
  const pid_t child = fork();
  if (child == 0) {
    constexpr size_t kOthers = 31 * kMiB;
    if (!WriteTo(group + "/cgroup.procs", "0")) _exit(2);
    void* const others =
        mmap(nullptr, kOthers, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (others == MAP_FAILED || mlock(others, kOthers) != 0) _exit(3);
    const Result<FileLoad> load =
        LoadFile(fd.Get(), 0, 16 * kMiB, nullptr, LoadMode::kLeaveSkipped);
    _exit(load && load->is_refused && load->loaded < 16 * kMiB ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status)) << "killed";
  EXPECT_EQ(WEXITSTATUS(status), 0);
  EXPECT_EQ(rmdir(group.c_str()), 0);
}

// Before Linux 6.5 nothing tells that read-ahead left pages out: they are loaded all the same.
TEST(FileCache, ALoadAheadIsWholeWhereCachestatIsMissing) {
  constexpr uint64_t kBytes = 4 << 20;
  constexpr int kSysCachestat = 451;
  const TempTree tree;
  tree.Write("/file", std::string(kBytes, 'x'));
  const UniqueFd fd(open(tree.Path("/file").c_str(), O_RDWR | O_CLOEXEC));
  ASSERT_EQ(fsync(fd.Get()), 0);
  ASSERT_EQ(posix_fadvise(fd.Get(), 0, 0, POSIX_FADV_DONTNEED), 0);
  EXPECT_EQ(EndOf(StartChild([&] {
              if (!HideCall(kSysCachestat) || !HideCall(SYS_readahead)) return 2;
              const Result<FileLoad> load =
                  LoadFile(fd.Get(), 0, kBytes, nullptr, LoadMode::kLeaveSkipped);
              return load && !load->is_refused && load->loaded == kBytes ? 0 : 1;
            })),
            0);
}

}  // namespace
}  // namespace ppc
