// SPDX-License-Identifier: Apache-2.0
#include "daemon/backend/observer/direct_readers.h"

#include <gtest/gtest.h>

#include <optional>

#include "daemon/base/clock.h"

namespace ppc {
namespace {

// A look takes milliseconds, and thousands of small files are loaded a second.
TEST(DirectReaders, WhoLoadsAsksForALookOnlyWhereNoneIsDue) {
  DirectReaders readers(SysRoots{}, [](dev_t, ino_t) { return std::nullopt; });
  const uint64_t now = MonotonicNs();
  EXPECT_EQ(readers.Look(now), 0U);
  EXPECT_TRUE(readers.NoteLoad(1, 1));
  EXPECT_FALSE(readers.NoteLoad(2, 1)) << "it has been asked for";
  EXPECT_NE(readers.Look(now), 0U);
  EXPECT_FALSE(readers.NoteLoad(3, 1)) << "the next one is due by itself";
  EXPECT_NE(readers.Look(now + kNsPerSec / 10), 0U);
  // Nothing is loaded for a while.
  EXPECT_EQ(readers.Look(now + 10 * kNsPerSec), 0U);
  EXPECT_TRUE(readers.NoteLoad(4, 1));
}

}  // namespace
}  // namespace ppc
