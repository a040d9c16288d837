// SPDX-License-Identifier: Apache-2.0
// The replay backend stands for the module: its numbers go stale when the test says so.
// The device is only found: there is no module.
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#include <cerrno>
#include <string>

#include "daemon/backend/kmod/kmod_files.h"
#include "daemon/backend/kmod/upc_device.h"
#include "sim/replay/replay_backend.h"
#include "tests/unit/has.h"
#include "tests/unit/temp_tree.h"
#include "tests/unit/units.h"

namespace ppc {
namespace {

class KmodFilesTest : public testing::Test {
 protected:
  KmodFilesTest() {
    module_.AddFile(1, "a", 8 * kMiB);
    (void)numbers_.Lookup("a");
  }
  // The kernel drops the inode from its cache and gives the next lookup a new number.
  void ComesBackAs(uint64_t number, uint64_t was, uint64_t ino = 1, const std::string& path = "a") {
    module_.MakeStale(was);
    module_.AddFile(number, path, 8 * kMiB);
    module_.SetIno(number, ino);
  }
  std::string PathOf(uint64_t file) {
    std::string path;
    return numbers_.Resolve(file, &path) ? path : "";
  }
  // What a load of the file would be given: the number, or 0 with `code_` set.
  uint64_t NumberFor(uint64_t file) {
    uint64_t number = 0;
    calls_ = 0;
    const Result<Residency> state = numbers_.WithCurrentNumber(file, [&](uint64_t current) {
      ++calls_;
      number = current;
      return module_.Resident(current, 0, 0, {});
    });
    code_ = state ? 0 : state.error().code;
    return state ? number : 0;
  }
  int looked_up_ = 0;
  int calls_ = 0;
  int code_ = 0;
  ReplayBackend module_{{}};
  KmodFiles numbers_{
      {.resolve = [this](uint64_t number,
                         std::string* path) { return module_.Resolve(number, path); },
       .look_up =
           [this](const std::string& path) {
             ++looked_up_;
             return module_.Lookup(path);
           },
       .set_native = [this](uint64_t number,
                            bool native) { return module_.SetFileNative(number, native); }}};
};

TEST_F(KmodFilesTest, AFileKeepsItsFirstNumber) {
  EXPECT_EQ(numbers_.Lookup("a")->file, 1u);
  ComesBackAs(2, 1);
  // An event with the new number comes first.
  EXPECT_EQ(numbers_.FileOf(2), 1u);
  EXPECT_EQ(numbers_.FileOf(1), 1u);
  EXPECT_EQ(NumberFor(1), 2u);
  EXPECT_EQ(calls_, 1) << "known to be the current one";
  EXPECT_EQ(numbers_.Lookup("a")->file, 1u);
  EXPECT_EQ(numbers_.Resolve(1, nullptr)->file, 1u);
  // And once more.
  ComesBackAs(3, 2);
  EXPECT_EQ(NumberFor(1), 3u);
  EXPECT_EQ(numbers_.FileOf(3), 1u);
  EXPECT_EQ(numbers_.FileOf(2), 1u) << "of an event from before";
  EXPECT_EQ(numbers_.FileOf(77), 77u) << "never known";
}

TEST_F(KmodFilesTest, AStaleNumberIsLookedUpOnce) {
  ComesBackAs(2, 1);
  looked_up_ = 0;
  EXPECT_EQ(NumberFor(1), 2u);
  EXPECT_EQ(calls_, 2);
  EXPECT_EQ(looked_up_, 1);
  EXPECT_EQ(NumberFor(1), 2u);
  EXPECT_EQ(looked_up_, 1);
  EXPECT_EQ(NumberFor(77), 0u);
  EXPECT_EQ(code_, ESTALE);
}

TEST_F(KmodFilesTest, AFileThatIsGoneStaysGone) {
  module_.MakeStale(1);
  EXPECT_EQ(NumberFor(1), 0u);
  EXPECT_EQ(code_, ESTALE);
  EXPECT_FALSE(numbers_.Resolve(1, nullptr));
  ComesBackAs(2, 1);  // there again after all
  EXPECT_EQ(NumberFor(1), 2u);
}

TEST_F(KmodFilesTest, TheSameNumberIsTriedThreeTimesAndNoMore) {
  int calls = 0;
  const Status done = numbers_.WithCurrentNumber(1, [&](uint64_t) -> Status {
    ++calls;
    return PosixError("load", ESTALE);  // though its name leads to the same number
  });
  EXPECT_FALSE(done);
  EXPECT_EQ(calls, 1 + 3);
}

TEST_F(KmodFilesTest, NumbersThatChangeMeanwhileAreFollowed) {
  uint64_t last = 1;
  const Result<uint64_t> done =
      numbers_.WithCurrentNumber(1, [&](uint64_t number) -> Result<uint64_t> {
        if (last == 4) return number;
        ComesBackAs(last + 1, last);
        ++last;
        return PosixError("load", ESTALE);
      });
  ASSERT_TRUE(done);
  EXPECT_EQ(*done, 4u);
}

TEST_F(KmodFilesTest, ANameThatLeadsToAnotherInodeIsAnotherFile) {
  ComesBackAs(2, 1, /*ino=*/9);
  EXPECT_EQ(numbers_.FileOf(2), 2u);
  EXPECT_EQ(NumberFor(1), 0u);
  EXPECT_EQ(code_, ESTALE);
  EXPECT_FALSE(numbers_.Resolve(1, nullptr));
  EXPECT_EQ(numbers_.Size(), 1u) << "nothing is known of it any more";
  EXPECT_EQ(numbers_.Lookup("a")->file, 2u);
}

TEST_F(KmodFilesTest, AChangedFileIsAnother) {
  module_.MakeStale(1);
  module_.AddFile(2, "a", 4 * kMiB);
  module_.SetIno(2, 1);
  EXPECT_EQ(numbers_.FileOf(2), 2u);
}

// A symlink's name when the policy asked, the file's own name with the event.
TEST_F(KmodFilesTest, AFileIsTheSameUnderAnotherName) {
  ComesBackAs(2, 1, 1, "blobs/a");
  EXPECT_EQ(numbers_.FileOf(2), 1u);
  EXPECT_EQ(PathOf(1), "blobs/a");
  EXPECT_EQ(NumberFor(1), 2u);
}

TEST_F(KmodFilesTest, ARenameAfterwardsKeepsTheFile) {
  ComesBackAs(2, 1);
  EXPECT_EQ(PathOf(1), "a");
  module_.AddFile(2, "b", 6000);
  module_.SetIno(2, 1);
  EXPECT_EQ(PathOf(1), "b");
  EXPECT_EQ(numbers_.FileOf(2), 1u);
}

TEST_F(KmodFilesTest, NumbersThatNobodyHasAnyMoreAreForgotten) {
  for (uint64_t number = 2; number < 50; ++number) {
    ComesBackAs(number, number - 1);
    ASSERT_EQ(numbers_.FileOf(number), 1u);
  }
  EXPECT_EQ(numbers_.Size(), 10u);  // the first, eight for events under way, the current
  EXPECT_EQ(numbers_.FileOf(42), 1u);
  EXPECT_EQ(NumberFor(1), 49u);
}

TEST_F(KmodFilesTest, NativeReadingOutlivesTheNumber) {
  ASSERT_TRUE(numbers_.SetNative(1, true));
  EXPECT_TRUE(module_.IsFileNative(1));
  ComesBackAs(2, 1);
  EXPECT_EQ(numbers_.FileOf(2), 1u);
  EXPECT_TRUE(module_.IsFileNative(2));
  ComesBackAs(3, 2);
  ASSERT_TRUE(numbers_.SetNative(1, false)) << "by a stale number";
  EXPECT_FALSE(module_.IsFileNative(3));
}

TEST_F(KmodFilesTest, ThereIsABoundToWhatIsKept) {
  ComesBackAs(2, 1);
  (void)numbers_.FileOf(2);
  for (uint64_t number = 10; number < 66000; ++number) {
    module_.AddFile(number, std::to_string(number), kPageBytes);
    (void)numbers_.FileOf(number);
  }
  numbers_.Trim();
  EXPECT_EQ(numbers_.Size(), 2u);
  EXPECT_EQ(NumberFor(1), 2u) << "could not be learnt anew";
  EXPECT_EQ(numbers_.FileOf(20), 20u);
}

TEST(FindUpcMount, ByTheMountsDeviceNumber) {
  TempTree tree;
  struct stat st {};
  ASSERT_EQ(stat(tree.Root().c_str(), &st), 0);
  const std::string dev = std::to_string(major(st.st_dev)) + ":" + std::to_string(minor(st.st_dev));
  tree.Write("/sys/fs/ppc/0/dev", "999:1\n");
  EXPECT_EQ(FindUpcMount(tree.Root(), tree.Root()).error().code, ENODEV);
  tree.Write("/sys/fs/ppc/12/dev", dev + "\n");
  const UpcMount found = Value(FindUpcMount(tree.Root(), tree.Root()));
  EXPECT_EQ(found.device, "/dev/ppc12");
  EXPECT_EQ(found.st_dev, st.st_dev);
}

TEST(FindUpcMount, SaysWhatToDo) {
  TempTree tree;
  const Result<UpcMount> no_module = FindUpcMount(tree.Root(), tree.Root());
  EXPECT_TRUE(Has(no_module.error().message, "modprobe ppc"));
  EXPECT_EQ(FindUpcMount("/absent/mount", tree.Root()).error().code, ENOENT);
}

TEST(UpcDevice, RefusesWhatIsNoDevice) {
  EXPECT_FALSE(UpcDevice::Open("/dev/null").ok());
  EXPECT_FALSE(UpcDevice::Open("/dev/absent").ok());
}

}  // namespace
}  // namespace ppc
