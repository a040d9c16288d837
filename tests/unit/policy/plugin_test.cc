// SPDX-License-Identifier: Apache-2.0
#include "daemon/policy/plugin.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <fstream>
#include <thread>

#include "tests/unit/has.h"
#include "tests/unit/temp_tree.h"

namespace ppc {
namespace {

constexpr PluginOptions kAnyOwner{.allow_any_owner = true};

std::string Library(const std::string& kind) {
  return std::string(PLUGIN_DIR) + "/libplugin_" + kind + ".so";
}

void ExpectRefused(const std::string& path, int code, const std::string& words,
                   const PluginOptions& options = kAnyOwner) {
  const Result<std::unique_ptr<Plugin>> plugin = Plugin::Open(path, options);
  ASSERT_FALSE(plugin.ok()) << path;
  EXPECT_EQ(plugin.error().code, code) << plugin.error().message;
  EXPECT_TRUE(Has(plugin.error().message, words));
}

TEST(Plugin, OpensAGoodOne) {
  const std::unique_ptr<Plugin> plugin = Value(Plugin::Open(Library("good"), kAnyOwner));
  EXPECT_NE(plugin->table().ppc_init, nullptr);
  EXPECT_EQ(plugin->table().ppc_prefetch, nullptr);
  EXPECT_EQ(plugin->Name(), "libplugin_good");
}

TEST(Plugin, RefusesWhatIsNoPolicy) {
  ExpectRefused(Library("absent"), ENOENT, "absent");
  ExpectRefused("relative.so", EINVAL, "absolute");
  ExpectRefused(PLUGIN_DIR, EINVAL, "regular file");
  ExpectRefused(Library("no_register"), EPROTO, "register_policy");
  ExpectRefused(Library("other_abi"), EPROTO, "ABI");
  ExpectRefused(Library("no_abi"), EPROTO, "ppc_policy_abi");
  ExpectRefused(Library("null_table"), EPROTO, "NULL");
  ExpectRefused(Library("throwing"), EPROTO, "no luck");
}

TEST(Plugin, RefusesOtherFiles) {
  TempTree tree;
  tree.Write("/text.so", "hello");
  tree.Write("/script.so", "#!/bin/sh\n" + std::string(100, '#'));
  ExpectRefused(tree.Path("/text.so"), ENOEXEC, "ELF");
  ExpectRefused(tree.Path("/script.so"), ENOEXEC, "ELF");
}

TEST(Plugin, RefusesAnotherMachines) {
  TempTree tree;
  std::filesystem::copy_file(Library("good"), tree.Path("/other.so"));
  std::fstream file(tree.Path("/other.so"), std::ios::in | std::ios::out | std::ios::binary);
  file.seekp(18);  // e_machine
  file.put(0x2a).put(0);
  file.close();
  ExpectRefused(tree.Path("/other.so"), ENOEXEC, "another machine");
}

class PluginOwner : public testing::Test {
 protected:
  void SetUp() override {
    if (geteuid() != 0) GTEST_SKIP() << "only root can give files to others";
    std::filesystem::create_directories(tree_.Path("/a/b"));
    path_ = tree_.Path("/a/b/p.so");
    std::filesystem::copy_file(Library("good"), path_);
    ASSERT_EQ(chmod(path_.c_str(), 0755), 0);
    ASSERT_TRUE(Plugin::Open(path_).ok()) << Plugin::Open(path_).error().message;
  }
  TempTree tree_;
  std::string path_;
};

TEST_F(PluginOwner, FileMustBeRoots) {
  ASSERT_EQ(chown(path_.c_str(), 1000, 0), 0);
  ExpectRefused(path_, EACCES, "not owned by root", {});
}

TEST_F(PluginOwner, AUsersOwnIsFineForHisRunner) {
  ASSERT_EQ(chmod(tree_.Path("").c_str(), 0755), 0);
  for (const char* part : {"/a", "/a/b", "/a/b/p.so"}) {
    ASSERT_EQ(chown(tree_.Path(part).c_str(), 1000, 1000), 0);
  }
  // geteuid() is a thread's.
  std::thread([this] {
    ASSERT_EQ(syscall(SYS_setresuid, -1, 1000, -1), 0);
    const Result<std::unique_ptr<Plugin>> plugin = Plugin::Open(path_);
    EXPECT_TRUE(plugin.ok()) << plugin.error().message;
  }).join();
  std::thread([this] {
    ASSERT_EQ(syscall(SYS_setresuid, -1, 1001, -1), 0);
    ExpectRefused(path_, EACCES, "or the runner's user", {});
  }).join();
}

TEST_F(PluginOwner, FileMustNotBeWritable) {
  ASSERT_EQ(chmod(path_.c_str(), 0775), 0);
  ExpectRefused(path_, EACCES, "writable by others", {});
  ASSERT_EQ(chmod(path_.c_str(), 0757), 0);
  ExpectRefused(path_, EACCES, "writable by others", {});
}

TEST_F(PluginOwner, NorItsDirectories) {
  ASSERT_EQ(chmod(tree_.Path("/a").c_str(), 0777), 0);
  ExpectRefused(path_, EACCES, "/a is writable", {});
  ASSERT_EQ(chmod(tree_.Path("/a").c_str(), 0755), 0);
  ASSERT_EQ(chown(tree_.Path("/a/b").c_str(), 1000, 1000), 0);
  ExpectRefused(path_, EACCES, "/a/b is not owned", {});
}

TEST_F(PluginOwner, ALinkIsFollowedBeforeTheChecks) {
  ASSERT_EQ(chmod(path_.c_str(), 0777), 0);
  tree_.Link("/link.so", path_);
  ExpectRefused(tree_.Path("/link.so"), EACCES, "p.so is writable", {});
}

TEST(FindPolicy, NamesAndPaths) {
  EXPECT_EQ(*FindPolicy("/x/y.so"), "/x/y.so");
  EXPECT_EQ(*FindPolicy("maio", "/p"), "/p/libppc_maio.so");
  EXPECT_FALSE(FindPolicy("../maio").ok());
  EXPECT_FALSE(FindPolicy("").ok());
}

}  // namespace
}  // namespace ppc
