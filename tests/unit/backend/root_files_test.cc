// SPDX-License-Identifier: Apache-2.0
#include "daemon/backend/root_files.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <filesystem>
#include <string>
#include <vector>

#include "tests/unit/has.h"
#include "tests/unit/temp_tree.h"

namespace ppc {
namespace {

class RootFilesTest : public testing::Test {
 protected:
  RootFilesTest() {
    tree_.Write("/base/model/a", "hello");
    tree_.Write("/outside", "secret");
    tree_.Link("/base/model/inside", "a");
    tree_.Link("/base/model/up", "../../outside");
    tree_.Link("/base/model/absolute", tree_.Path("/outside"));
  }
  std::string Text(const std::string& path, uint64_t offset = 0) {
    std::array<uint8_t, 64> buffer{};
    const Result<size_t> got = files_.Read(path, offset, buffer);
    if (!got) return "";
    return std::string(buffer.begin(), buffer.begin() + static_cast<std::ptrdiff_t>(*got));
  }
  TempTree tree_;
  RootFiles files_{tree_.Path("/base")};
};

TEST_F(RootFilesTest, ReadsWhatLiesBelow) {
  EXPECT_EQ(Text("model/a"), "hello");
  EXPECT_EQ(Text("model/a", 3), "lo");
  EXPECT_EQ(Text("model/a", 9), "");
  EXPECT_EQ(Text("model/inside"), "hello");
}

TEST_F(RootFilesTest, NothingLeadsOut) {
  for (const char* path : {"../outside", "model/../../outside", "model/up", "model/absolute"}) {
    const Result<UniqueFd> fd = files_.Open(path);
    ASSERT_FALSE(fd) << path;
    EXPECT_EQ(fd.error().code, EXDEV) << path;
    EXPECT_FALSE(files_.FollowLinks(path)) << path;
  }
  EXPECT_EQ(files_.FollowLinks("model/up").error().code, ELOOP);
  EXPECT_FALSE(files_.Open("/proc/self/status"));
}

// To open a device or a FIFO has effects.
TEST_F(RootFilesTest, OpensNothingButFilesAndDirectories) {
  const std::string pipe = tree_.Path("/base/model/pipe");
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  const UniqueFd watch(inotify_init1(IN_NONBLOCK | IN_CLOEXEC));
  ASSERT_GE(inotify_add_watch(watch.Get(), pipe.c_str(), IN_OPEN), 0);
  ExpectError(files_.Open("model/pipe"), EINVAL);
  EXPECT_FALSE(files_.List("model/pipe", [](const char*, char) { return true; }));
  std::array<char, 4096> event{};
  EXPECT_LT(read(watch.Get(), event.data(), event.size()), 0) << "it was opened";
  EXPECT_EQ(files_.Open("model/inside", O_RDONLY | O_NOFOLLOW).error().code, ELOOP);
}

TEST_F(RootFilesTest, AnotherDirectoryUnderItsNameIsNotTheRoot) {
  const RootFiles files(tree_.Path("/base"));
  tree_.Write("/other/model/a", "other");
  std::filesystem::rename(tree_.Path("/base"), tree_.Path("/was"));
  tree_.Link("/base", tree_.Path("/other"));
  EXPECT_EQ(files.Open("model/a").error().code, ENODEV);
  std::filesystem::remove(tree_.Path("/base"));
  tree_.Link("/base", tree_.Path("/was"));
  EXPECT_TRUE(files.Open("model/a"));
}

TEST_F(RootFilesTest, ListsADirectoryAndTheRootItself) {
  std::vector<std::string> names;
  ASSERT_TRUE(files_.List("model", [&](const char* name, char kind) {
    names.push_back(std::string(name) + kind);
    return true;
  }));
  std::sort(names.begin(), names.end());
  EXPECT_EQ(names, (std::vector<std::string>{"absolutel", "af", "insidel", "upl"}));
  names.clear();
  ASSERT_TRUE(files_.List("", [&](const char* name, char kind) {
    names.push_back(std::string(name) + kind);
    return true;
  }));
  EXPECT_EQ(names, std::vector<std::string>{"modeld"});
  EXPECT_FALSE(files_.List("model/a", [](const char*, char) { return true; }));
}

TEST_F(RootFilesTest, LinksThatStayBelowAreFollowed) {
  EXPECT_EQ(*files_.FollowLinks("model/inside"), "model/a");
  EXPECT_EQ(files_.FollowLinks("model/none").error().code, ENOENT);
}

TEST_F(RootFilesTest, NothingIsReadThroughAnotherMount) {
  struct stat st {};
  ASSERT_EQ(stat(tree_.Path("/base").c_str(), &st), 0);
  const RootFiles same(tree_.Path("/base"), st.st_dev);
  EXPECT_TRUE(same.Open("model/a"));
  const RootFiles other(tree_.Path("/base"), st.st_dev + 1);
  for (const Status& refused :
       {Status(other.Open("model/a").error()), Status(other.FollowLinks("model/inside").error())}) {
    EXPECT_EQ(refused.error().code, ENODEV);
    EXPECT_TRUE(Has(refused.error().message, "another mount"));
  }
}

TEST_F(RootFilesTest, ARootThatIsGoneIsNamed) {
  const RootFiles gone(tree_.Path("/gone"));
  const Result<UniqueFd> fd = gone.Open("a");
  ASSERT_FALSE(fd);
  EXPECT_TRUE(Has(fd.error().message, "/gone"));
}

}  // namespace
}  // namespace ppc
