// SPDX-License-Identifier: Apache-2.0
// What can be seen of the device without the module: finding it.
#include "daemon/backend/kmod/upc_device.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#include "tests/unit/temp_tree.h"

namespace ppc {
namespace {

TEST(FindUpcMount, ByTheMountsDeviceNumber) {
  TempTree tree;
  struct stat st {};
  ASSERT_EQ(stat(tree.Root().c_str(), &st), 0);
  const std::string dev = std::to_string(major(st.st_dev)) + ":" + std::to_string(minor(st.st_dev));
  tree.Write("/sys/fs/ppc/0/dev", "999:1\n");
  EXPECT_EQ(FindUpcMount(tree.Root(), tree.Root()).error().code, ENODEV);
  tree.Write("/sys/fs/ppc/12/dev", dev + "\n");
  const Result<UpcMount> found = FindUpcMount(tree.Root(), tree.Root());
  ASSERT_TRUE(found.ok());
  EXPECT_EQ(found->device, "/dev/ppc12");
  EXPECT_EQ(found->st_dev, st.st_dev);
}

TEST(FindUpcMount, SaysWhatToDo) {
  TempTree tree;
  const Result<UpcMount> no_module = FindUpcMount(tree.Root(), tree.Root());
  EXPECT_NE(no_module.error().message.find("modprobe ppc"), std::string::npos);
  EXPECT_EQ(FindUpcMount("/absent/mount", tree.Root()).error().code, ENOENT);
}

TEST(UpcDevice, RefusesWhatIsNoDevice) {
  EXPECT_FALSE(UpcDevice::Open("/dev/null").ok());
  EXPECT_FALSE(UpcDevice::Open("/dev/absent").ok());
}

}  // namespace
}  // namespace ppc
