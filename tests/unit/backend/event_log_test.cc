// SPDX-License-Identifier: Apache-2.0
#include "daemon/backend/event_log.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "tests/unit/temp_tree.h"

namespace ppc {
namespace {

TEST(EventLog, WhatIsWrittenIsRead) {
  TempTree tree;
  const std::string path = tree.Path("/log");
  Result<EventLogWriter> writer = EventLogWriter::Create(path);
  ASSERT_TRUE(writer.ok());
  writer->AddFile({5, 1 << 20, "a/b.safetensors"});
  std::vector<Event> events(3);
  events[0] = Event{.file = 5, .offset = 4096, .length = 8192, .time_ns = 30, .tid = 7};
  events[1] = Event{.file = 5, .time_ns = 10, .kind = EventKind::kProgress, .flags = kEventHit};
  events[2] = Event{.file = 5, .time_ns = 20, .open_id = 9, .tgid = -3, .cpu = 65535};
  writer->AddEvents(events);
  ASSERT_TRUE(writer->Finish().ok());

  const Result<EventLog> log = ReadEventLog(path);
  ASSERT_TRUE(log.ok());
  ASSERT_EQ(log->files.size(), 1u);
  EXPECT_EQ(log->files[0].path, "a/b.safetensors");
  ASSERT_EQ(log->events.size(), 3u);
  EXPECT_EQ(log->events[0].kind, EventKind::kProgress);  // sorted by time
  EXPECT_EQ(log->events[1].tgid, -3);
  EXPECT_EQ(log->events[1].cpu, 65535);
  EXPECT_EQ(log->events[2].length, 8192u);
}

TEST(EventLog, ACutOffLogIsGoodUpToThere) {
  TempTree tree;
  const std::string path = tree.Path("/log");
  Result<EventLogWriter> writer = EventLogWriter::Create(path);
  writer->AddFile({5, 1, "a"});
  writer->AddFile({6, 1, "b"});
  ASSERT_TRUE(writer->Finish().ok());
  std::filesystem::resize_file(path, std::filesystem::file_size(path) - 3);
  EXPECT_EQ(ReadEventLog(path)->files.size(), 1u);
}

TEST(EventLog, RefusesOtherFiles) {
  TempTree tree;
  tree.Write("/x", "something else");
  EXPECT_EQ(ReadEventLog(tree.Path("/x")).error().code, EINVAL);
  EXPECT_EQ(ReadEventLog(tree.Path("/absent")).error().code, ENOENT);
}

}  // namespace
}  // namespace ppc
