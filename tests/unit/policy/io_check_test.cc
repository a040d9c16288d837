// SPDX-License-Identifier: Apache-2.0
#include "daemon/policy/io_check.h"

#include <gtest/gtest.h>

namespace ppc {
namespace {

// One file of 10000 bytes: number 5, path "a/b".
class OneFile : public FileResolver {
 public:
  bool SizeOf(uint64_t file, uint64_t* bytes) override {
    *bytes = 10000;
    return file == 5;
  }
  bool FindPath(const std::string& path, uint64_t* file, uint64_t* bytes) override {
    *file = 5;
    *bytes = 10000;
    return path == "a/b";
  }
};

class IoCheck : public testing::Test {
 protected:
  IoRefusal Why(const ppc_io& io) {
    IoRefusal why = IoRefusal::kNone;
    range_ = CheckIo(io, &files_, &why);
    EXPECT_EQ(range_.has_value(), why == IoRefusal::kNone);
    return why;
  }
  OneFile files_;
  std::optional<IoRange> range_;
};

TEST_F(IoCheck, RoundsOutwardAndClamps) {
  EXPECT_EQ(Why({.file = 5, .offset = 5000, .size = 100}), IoRefusal::kNone);
  EXPECT_EQ(range_->offset, 4096u);
  EXPECT_EQ(range_->size, 4096u);
  EXPECT_EQ(Why({.path = "a/b", .offset = 0, .size = UINT64_MAX >> 2}), IoRefusal::kNone);
  EXPECT_EQ(range_->file, 5u);
  EXPECT_EQ(range_->size, 12288u);
}

TEST_F(IoCheck, RefusesWhatCannotBe) {
  EXPECT_EQ(Why({.file = 6, .size = 1}), IoRefusal::kFile);
  EXPECT_EQ(Why({.path = "absent", .size = 1}), IoRefusal::kFile);
  EXPECT_EQ(Why({.file = 5, .size = 1, .group = 64}), IoRefusal::kGroup);
  EXPECT_EQ(Why({.file = 5, .size = 1, .flags = 0x80}), IoRefusal::kFlags);
  EXPECT_EQ(Why({.file = 5, .offset = UINT64_MAX, .size = 1}), IoRefusal::kRange);
  EXPECT_EQ(Why({.file = 5, .offset = 1, .size = UINT64_MAX}), IoRefusal::kRange);
  EXPECT_EQ(Why({.file = 5, .offset = 0, .size = 0}), IoRefusal::kEmpty);
  EXPECT_EQ(Why({.file = 5, .offset = 12288, .size = 1}), IoRefusal::kEmpty);
  EXPECT_EQ(Why({.size = 1}), IoRefusal::kPath);
}

TEST_F(IoCheck, PathsStayInTheMount) {
  const std::string long_path(5000, 'x');
  for (const char* bad :
       {"/a/b", "../a", "a/../b", "a//b", "a/", "", ".", "a/./b", "..", long_path.c_str()}) {
    EXPECT_EQ(Why({.path = bad, .size = 1}), IoRefusal::kPath) << bad;
  }
  EXPECT_TRUE(IsCleanPath("..a/b..c"));
}

TEST_F(IoCheck, AnUnknownXpuMeansAnywhere) {
  EXPECT_EQ(Why({.file = 5, .size = 1, .xpu = -7}), IoRefusal::kNone);
  EXPECT_EQ(range_->xpu, PPC_NO_XPU);
}

}  // namespace
}  // namespace ppc
