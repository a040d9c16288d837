// SPDX-License-Identifier: Apache-2.0
// What is told of the page cache of an open file.
#include "daemon/backend/file_cache.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cerrno>
#include <string>

#include "daemon/base/unique_fd.h"
#include "tests/unit/temp_tree.h"

namespace ppc {
namespace {

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

}  // namespace
}  // namespace ppc
