// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <cerrno>
#include <memory>
#include <vector>

#include "daemon/exec/event_recorder.h"
#include "sim/replay/replay_backend.h"
#include "tests/unit/has.h"
#include "tests/unit/temp_tree.h"

namespace ppc {
namespace {

TEST(LogRecorder, WritesEachKnownFileOnceAndAllEvents) {
  const TempTree tree;
  ReplayBackend backend({});
  backend.AddFile(1, "m/a", 5000);
  backend.AddFile(2, "m/b", 6000);
  FileTable files(&backend);
  const std::unique_ptr<EventRecorder> recorder = Value(OpenRecorder(tree.Path("/log")));
  const std::vector<Event> first = {{.file = 1, .length = 4096, .time_ns = 1},
                                    {.file = 3, .length = 4096, .time_ns = 2}};
  const std::vector<Event> second = {{.file = 1, .offset = 4096, .length = 4096, .time_ns = 3},
                                     {.file = 2, .length = 4096, .time_ns = 4}};
  recorder->Add(first, &files, backend.NowNs());
  recorder->Add(second, &files, backend.NowNs());
  ASSERT_TRUE(recorder->Finish());
  const EventLog log = Value(ReadEventLog(tree.Path("/log")));
  ASSERT_EQ(log.files.size(), 2U);
  EXPECT_EQ(log.files[0].path, "m/a");
  EXPECT_EQ(log.files[0].size, 5000U);
  EXPECT_EQ(log.files[1].path, "m/b");
  ASSERT_EQ(log.events.size(), 4U);
  EXPECT_EQ(log.events[1].file, 3U) << "that of no known file";
  EXPECT_EQ(log.events[2].offset, 4096U);
}

TEST(LogRecorder, SaysWhereItCannotWrite) {
  EXPECT_EQ(OpenRecorder("/no/such/folder").error().code, ENOENT);
}

}  // namespace
}  // namespace ppc
