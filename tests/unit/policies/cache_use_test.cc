// SPDX-License-Identifier: Apache-2.0
//
// Which workers are served by what they are seen to do.
#include "policies/maio/follow/cache_use.h"

#include <gtest/gtest.h>

#include <vector>

namespace ppc::maio {
namespace {

constexpr uint64_t kModel = 1ull << 40;

std::vector<uint32_t> Read(CacheUse* use, int32_t group, uint64_t bytes) {
  std::vector<uint32_t> started;
  use->Read(group, bytes, [&](uint32_t g) { started.push_back(g); });
  return started;
}
std::vector<uint32_t> Pass(CacheUse* use, int32_t group) {
  std::vector<uint32_t> stopped;
  use->Pass(group, [&](uint32_t g) { stopped.push_back(g); });
  return stopped;
}
using Groups = std::vector<uint32_t>;

TEST(CacheUse, OneReaderSpeaksForAllOfWhichNothingIsKnown) {
  CacheUse use(3, kModel, true);
  EXPECT_EQ(use.waiting(), 3u);
  EXPECT_EQ(Read(&use, 1, kSeenBytes - 1), Groups());
  EXPECT_TRUE(use.Waits(0));
  EXPECT_EQ(Read(&use, -1, 1), (Groups{0, 1, 2}));
  EXPECT_EQ(use.waiting(), 0u);
  EXPECT_FALSE(use.has_passed());
}

TEST(CacheUse, WhoReadsPastItIsServedByItsOwnReadsAlone) {
  CacheUse use(2, kModel, false);
  EXPECT_FALSE(use.Waits(1));
  EXPECT_EQ(Pass(&use, 1), Groups{1});
  EXPECT_EQ(Pass(&use, 1), Groups()) << "it was not served";
  EXPECT_EQ(Read(&use, 0, kSeenBytes), Groups());
  EXPECT_FALSE(use.Waits(0));
  EXPECT_TRUE(use.Waits(1));
  // Headers between what it reads past it.
  EXPECT_EQ(Read(&use, 1, kSeenBytes - 1), Groups());
  EXPECT_EQ(Pass(&use, 1), Groups());
  EXPECT_EQ(Read(&use, 1, kSeenBytes - 1), Groups());
  EXPECT_EQ(Read(&use, 1, 1), Groups{1});
  EXPECT_TRUE(use.has_passed());
}

TEST(CacheUse, AProcessOfNoWorkerStopsAll) {
  CacheUse use(2, kModel, false);
  EXPECT_EQ(Pass(&use, -1), (Groups{0, 1}));
  EXPECT_EQ(use.waiting(), 2u);
}

TEST(CacheUse, OfASmallModelLessTells) {
  CacheUse use(1, 16 * kSeenShare, true);
  EXPECT_EQ(Read(&use, 0, 15), Groups());
  EXPECT_EQ(Read(&use, 0, 1), Groups{0});
  EXPECT_EQ(CacheUse(1, 0, true).waiting(), 0u) << "there is nothing to load";
}

}  // namespace
}  // namespace ppc::maio
