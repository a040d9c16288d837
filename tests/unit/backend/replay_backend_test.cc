// SPDX-License-Identifier: Apache-2.0
// Logs of events, and the backend that plays them.
#include "sim/replay/replay_backend.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "sim/replay/event_log.h"
#include "tests/unit/has.h"
#include "tests/unit/temp_tree.h"
#include "tests/unit/units.h"

namespace ppc {
namespace {

TEST(EventLog, WhatIsWrittenIsRead) {
  TempTree tree;
  const std::string path = tree.Path("/log");
  EventLogWriter writer = Value(EventLogWriter::Create(path));
  writer.AddFile({5, 1 << 20, "a/b.safetensors"});
  std::vector<Event> events(3);
  events[0] = Event{.file = 5, .offset = 4096, .length = 8192, .time_ns = 30, .tid = 7};
  events[1] = Event{.file = 5, .time_ns = 10, .kind = EventKind::kProgress, .flags = kEventHit};
  events[2] = Event{.file = 5, .time_ns = 20, .open_id = 9, .tgid = -3, .cpu = 65535};
  writer.AddEvents(events);
  ASSERT_TRUE(writer.Finish().ok());

  const EventLog log = Value(ReadEventLog(path));
  ASSERT_EQ(log.files.size(), 1u);
  EXPECT_EQ(log.files[0].path, "a/b.safetensors");
  ASSERT_EQ(log.events.size(), 3u);
  EXPECT_EQ(log.events[0].kind, EventKind::kProgress);  // sorted by time
  EXPECT_EQ(log.events[1].tgid, -3);
  EXPECT_EQ(log.events[1].cpu, 65535);
  EXPECT_EQ(log.events[2].length, 8192u);
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

Event Access(uint64_t file, uint64_t offset, uint64_t length, uint64_t time_ns = 0) {
  return Event{.file = file,
               .offset = offset,
               .length = length,
               .time_ns = time_ns,
               .tgid = 10,
               .tid = 10,
               .kind = EventKind::kAccess};
}

TEST(ReplayBackend, TheDiskTakesTime) {
  ReplayBackend backend({.disk_bytes_per_sec = 1000 * kMiB, .disk_latency_ns = 0});
  backend.AddFile(1, "a", 8 * kMiB);
  const uint64_t start = backend.NowNs();
  const Result<LoadResult> loaded = backend.Load({.file = 1, .length = 4 * kMiB, .node = 1});
  EXPECT_EQ(loaded->loaded, 4 * kMiB);
  EXPECT_NEAR(static_cast<double>(backend.NowNs() - start), 4e6, 10);
  EXPECT_EQ(backend.Resident(1, 0, 0, {})->node[1], 4 * kMiB);
  EXPECT_EQ(backend.Load({.file = 1, .length = 4 * kMiB})->resident, 4 * kMiB);
}

TEST(ReplayBackend, LoadsStopAtTheEndAndWhenCancelled) {
  ReplayBackend backend({});
  backend.AddFile(1, "a", kMiB + 1);
  const Result<LoadResult> end = backend.Load({.file = 1, .length = 8 * kMiB});
  EXPECT_EQ(end->stop, LoadStop::kEof);
  EXPECT_EQ(end->done, kMiB + kPageBytes);
  const std::atomic<uint64_t> newest = 5;
  EXPECT_EQ(backend.Load({.file = 1, .length = kMiB, .generation = 4, .newest = &newest})->stop,
            LoadStop::kCancelled);
  EXPECT_EQ(backend.Load({.file = 1, .length = kMiB, .generation = 5, .newest = &newest})->stop,
            LoadStop::kDone);
}

TEST(ReplayBackend, MemoryReclaimsTheOldest) {
  ReplayBackend backend({.memory_limit = 4 * kMiB});
  backend.AddFile(1, "a", 8 * kMiB);
  (void)backend.Load({.file = 1, .length = 8 * kMiB});
  EXPECT_EQ(backend.ResidentBytes(1), 4 * kMiB);
  EXPECT_EQ(backend.ReclaimedBytes(), 4 * kMiB);
  EXPECT_EQ(backend.Resident(1, 0, kMiB, {})->resident, 0u);
  EXPECT_EQ(backend.Read(false).used, 4 * kMiB);
}

TEST(ReplayBackend, AccessesBecomeMissesAndProgress) {
  ReplayBackend backend({.window_bytes = kMiB, .beacon_bytes = 4 * kMiB, .derive_events = true});
  backend.AddFile(1, "a", 16 * kMiB);
  ASSERT_TRUE(backend.Attach({.managed_readahead = true, .progress = true}).ok());
  (void)backend.Load({.file = 1, .length = 6 * kMiB});
  backend.Push(Access(1, 0, 2 * kMiB));
  backend.Push(Access(1, 2 * kMiB, 2 * kMiB));
  backend.Push(Access(1, 6 * kMiB, 4096));
  backend.Push(Access(1, 6 * kMiB + 4096, 4096));  // within the demand window
  Event events[8];
  ASSERT_EQ(backend.Drain(events), 2u);
  EXPECT_EQ(events[0].kind, EventKind::kProgress);
  EXPECT_EQ(events[0].flags, kEventHit);
  EXPECT_EQ(events[1].kind, EventKind::kMissRead);
  EXPECT_EQ(events[1].offset, 6 * kMiB);
}

TEST(ReplayBackend, TheClockGoesFromEventToEvent) {
  ReplayBackend backend({});
  backend.AddFile(1, "a", kMiB);
  ASSERT_TRUE(backend.Attach({}).ok());
  const uint64_t start = backend.NowNs();
  backend.Push(Access(1, 0, 4096, start + 50));
  EXPECT_EQ(backend.Wait(1000, false, {}), WaitOutcome::kEvents);
  EXPECT_EQ(backend.NowNs(), start + 50);
  Event events[2];
  EXPECT_EQ(backend.Drain(events), 1u);
  EXPECT_EQ(backend.Wait(1000, false, {}), WaitOutcome::kTimeout);
  EXPECT_EQ(backend.NowNs(), start + 1050);
}

TEST(ReplayBackend, WithoutReaderNoEvents) {
  ReplayBackend backend({});
  backend.AddFile(1, "a", kMiB);
  backend.Push(Access(1, 0, 4096));
  Event events[2];
  EXPECT_EQ(backend.Drain(events), 0u);
}

TEST(ReplayBackend, MappedPagesStayUnlessUnmapped) {
  ReplayBackend backend({});
  backend.AddFile(1, "a", kMiB);
  (void)backend.Load({.file = 1, .length = kMiB});
  backend.SetMapped(1, true);
  EXPECT_EQ(backend.Evict({.file = 1, .length = kMiB})->mapped, kMiB);
  EXPECT_EQ(backend.Evict({.file = 1, .length = kMiB, .unmap = true})->dropped, kMiB);
  backend.MakeStale(1);
  EXPECT_EQ(backend.Evict({.file = 1, .length = kMiB}).error().code, ESTALE);
}

}  // namespace
}  // namespace ppc
