// SPDX-License-Identifier: Apache-2.0
// Which backend is asked for what; none of them can be opened here.
#include "daemon/backend/factory.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#include <cerrno>
#include <string>

#include "tests/unit/has.h"
#include "tests/unit/temp_tree.h"

namespace ppc {
namespace {

TEST(BackendKind, IsReadByItsName) {
  EXPECT_EQ(*ParseBackendKind("auto"), BackendKind::kAuto);
  EXPECT_EQ(*ParseBackendKind("observer"), BackendKind::kObserver);
  for (const BackendKind kind :
       {BackendKind::kAuto, BackendKind::kKmod, BackendKind::kObserver, BackendKind::kPoll}) {
    EXPECT_EQ(*ParseBackendKind(BackendName(kind)), kind);
  }
  const Result<BackendKind> unknown = ParseBackendKind("ebpf");
  EXPECT_EQ(unknown.error().code, EINVAL);
  EXPECT_TRUE(Has(unknown.error().message, "'ebpf'; use auto, kmod"));
}

class FactoryTest : public testing::Test {
 protected:
  Error Refusal(BackendKind kind, const std::string& dir, const std::string& device = "") {
    const auto backend = OpenBackend(kind, dir, SysRoots{tree_.Root(), ""}, {}, device);
    return backend ? Error{0, "opened"} : backend.error();
  }
  TempTree tree_;
};

TEST_F(FactoryTest, TheModuleNeedsItsMount) {
  tree_.Write("/sys/fs/ppc/0/dev", "999:1\n");
  const Error error = Refusal(BackendKind::kKmod, tree_.Root());
  EXPECT_EQ(error.code, ENODEV);
  EXPECT_TRUE(Has(error.message, "mount -t ppc"));
}

TEST_F(FactoryTest, AMountIsForTheModule) {
  struct stat st {};
  ASSERT_EQ(stat(tree_.Root().c_str(), &st), 0);
  tree_.Write("/sys/fs/ppc/9999/dev",
              std::to_string(major(st.st_dev)) + ":" + std::to_string(minor(st.st_dev)) + "\n");
  EXPECT_TRUE(Has(Refusal(BackendKind::kAuto, tree_.Root()).message, "/dev/ppc9999"));
  for (const BackendKind kind : {BackendKind::kObserver, BackendKind::kPoll}) {
    const Error error = Refusal(kind, tree_.Root());
    EXPECT_EQ(error.code, EINVAL);
    EXPECT_TRUE(Has(error.message, "--backend kmod"));
  }
}

// Another was mounted there between its registration and the runner's start.
TEST_F(FactoryTest, OnlyTheMountThatWasRegistered) {
  struct stat st {};
  ASSERT_EQ(stat(tree_.Root().c_str(), &st), 0);
  tree_.Write("/sys/fs/ppc/9999/dev",
              std::to_string(major(st.st_dev)) + ":" + std::to_string(minor(st.st_dev)) + "\n");
  const Error other = Refusal(BackendKind::kAuto, tree_.Root(), "/dev/ppc9998");
  EXPECT_EQ(other.code, ENODEV);
  EXPECT_TRUE(Has(other.message, "is /dev/ppc9999 now; it was registered as /dev/ppc9998"));
  EXPECT_TRUE(Has(Refusal(BackendKind::kAuto, tree_.Root(), "/dev/ppc9999").message, "open"))
      << "it is this one, whose device is not there";
  tree_.Write("/sys/fs/ppc/9999/dev", "999:1\n");
  EXPECT_EQ(Refusal(BackendKind::kAuto, tree_.Root(), "/dev/ppc9999").code, ENODEV)
      << "no plain directory is taken for it";
}

TEST_F(FactoryTest, WhatIsNoDirectoryIsRefusedFirst) {
  tree_.Write("/file", "x");
  for (const BackendKind kind : {BackendKind::kAuto, BackendKind::kObserver, BackendKind::kPoll}) {
    EXPECT_EQ(Refusal(kind, "relative").code, EINVAL);
    EXPECT_EQ(Refusal(kind, "/proc/sys").code, EINVAL);
  }
}

}  // namespace
}  // namespace ppc
