// SPDX-License-Identifier: Apache-2.0
// null, readahead, eager and the paper's program through their hook tables.
#include <gtest/gtest.h>

#include <array>

#include "tests/policy/fake_host.h"
#include "tests/policy/model.h"

namespace ppc::test {
namespace {

constexpr uint64_t kMiB = 1 << 20;

TEST(NullPolicy, AsksForNothingAndCounts) {
  HostedPolicy host(PolicyPath("null"));
  EXPECT_EQ(host.abi(), PPC_POLICY_ABI);
  uint64_t file = host.AddFile("a", 8 * kMiB);
  ASSERT_EQ(host.Init(), 0);
  EXPECT_EQ(host.want, 0u);
  miss_io miss = host.Event(PPC_MISS_READ, file, 0, kMiB);
  EXPECT_EQ(host.ops().ppc_prefetch(&miss), nullptr);
  EXPECT_EQ(host.ops().ppc_evict, nullptr);
  host.ops().ppc_tick(1);
  EXPECT_EQ(host.stats["misses"], 1u);
  EXPECT_EQ(host.stats["missed_bytes"], kMiB);
  EXPECT_EQ(host.Control({{"op", "status"}})["misses"], 1);
  EXPECT_TRUE(host.Control({{"op", "dance"}}).is_null());
  EXPECT_EQ(host.Exit(), 0);
}

Reader Sequential(uint64_t file, uint64_t bytes, uint64_t rate) {
  Reader r;
  r.bytes_per_ms = rate;
  r.accesses.push_back({file, 0, bytes, 0, 0});
  return r;
}

TEST(Readahead, KeepsTheDiskBusyForOneSequentialReader) {
  for (bool mapped : {true, false}) {
    Options options;
    Simulator sim(PolicyPath("readahead"), options);
    uint64_t file = sim.AddFile("a", 256 * kMiB);
    ASSERT_EQ(sim.Init(), 0);
    sim.readers.push_back(Sequential(file, 256 * kMiB, options.disk_bytes_per_ms * 4));
    sim.readers[0].mapped = mapped;
    ASSERT_TRUE(sim.Run(10000));
    double ideal = 256.0 * kMiB / static_cast<double>(options.disk_bytes_per_ms);
    EXPECT_LE(static_cast<double>(sim.ms()), ideal / 0.9);
    EXPECT_EQ(sim.reread_bytes, 0u);
    EXPECT_EQ(sim.disk_bytes, 256 * kMiB);
  }
}

TEST(Readahead, FollowsSeveralReadersAndEvictsBehind) {
  Options options;
  options.limit = 128 * kMiB;
  Simulator sim(PolicyPath("readahead"), options);
  sim.SetConfig({{"window_max", "8M"}, {"behind", "8M"}, {"unmap", true}});
  for (int i = 0; i < 3; i++) {
    uint64_t file = sim.AddFile("f" + std::to_string(i), 96 * kMiB);
    sim.readers.push_back(Sequential(file, 96 * kMiB, 50 << 10));
    sim.readers.back().pid = 100 + i;
  }
  ASSERT_EQ(sim.Init(), 0);
  ASSERT_TRUE(sim.Run(20000));
  EXPECT_EQ(sim.reclaimed_bytes, 0u);
  EXPECT_EQ(sim.reread_bytes, 0u);
  EXPECT_LE(sim.peak, options.limit);
}

// Without the module the kernel reads ahead too, here two windows before its reader.
TEST(Readahead, TakesTheKernelsReadAheadForNoJump) {
  constexpr uint64_t kWindow = 8 * kMiB;
  constexpr uint64_t kBehind = 4 * kMiB;
  HostedPolicy host(PolicyPath("readahead"));
  host.SetConfig({{"window_min", kWindow}, {"window_max", kWindow}, {"behind", kBehind}});
  const uint64_t file = host.AddFile("a", 96 * kMiB);
  ASSERT_EQ(host.Init(), 0);
  const auto cached = [&](uint64_t from, uint64_t size) {
    miss_io event = host.Event(PPC_MISS_READ, file, from, size);
    event.flags = PPC_F_NOT_USER;
    host.ops().ppc_prefetch(&event);
    EXPECT_TRUE(host.interrupts.empty());
  };
  uint64_t evicted = 0;
  cached(0, 4096);
  cached(4096, kWindow - 4096);
  miss_io first = host.Event(PPC_MISS_READ, file, 0, 4096);
  EXPECT_EQ(host.ops().ppc_evict(&first), nullptr);  // nothing of it was read
  for (uint64_t at = 0; at < 96 * kMiB; at += kMiB) {
    miss_io progress = host.Event(PPC_PROGRESS, file, at, 128 << 10);
    host.ops().ppc_event(&progress);
    const uint64_t ahead = at + 2 * kWindow;
    if (at % kWindow == kMiB && ahead < 96 * kMiB) {
      cached(ahead, 4096);
      cached(ahead + 4096, kWindow - 4096);
    }
    const evict_ios* behind = host.ops().ppc_evict(&progress);
    for (uint32_t i = 0; behind != nullptr && i < behind->nr; ++i) {
      EXPECT_EQ(behind->ios[i].offset, evicted);
      evicted += behind->ios[i].size;
    }
  }
  EXPECT_EQ(evicted, 95 * kMiB + (128 << 10) - kBehind);
}

TEST(Readahead, FollowsEachProcessWhereOpenFilesHaveNoNumber) {
  HostedPolicy host(PolicyPath("readahead"));
  host.SetConfig({{"window_min", kMiB}, {"window_max", kMiB}});
  const uint64_t file = host.AddFile("a", 96 * kMiB);
  ASSERT_EQ(host.Init(), 0);
  std::array<uint64_t, 2> asked = {};
  for (uint64_t at = 0; at < 32 * kMiB; at += 64 << 10) {
    for (const int pid : {100, 101}) {
      const uint64_t start = pid == 100 ? 0 : 48 * kMiB;
      miss_io event = host.Event(PPC_MISS_READ, file, start + at, 64 << 10, pid);
      event.open_id = 0;
      const prefetch_ios* list = host.ops().ppc_prefetch(&event);
      EXPECT_TRUE(host.interrupts.empty()) << at;
      for (uint32_t i = 0; list != nullptr && i < list->nr; ++i)
        asked[pid - 100] += list->ios[i].size;
    }
  }
  for (const uint64_t bytes : asked) EXPECT_GE(bytes, 31 * kMiB);
}

// What is queued where the reader was is read by nobody.
TEST(Readahead, AJumpInterruptsTheLoadsOfItsStreamAlone) {
  HostedPolicy host(PolicyPath("readahead"));
  host.SetConfig({{"window_min", 8 * kMiB}, {"window_max", 8 * kMiB}});
  const uint64_t file = host.AddFile("a", 96 * kMiB);
  ASSERT_EQ(host.Init(), 0);
  std::array<uint32_t, 2> groups = {};
  for (const int pid : {100, 101}) {
    miss_io begin = host.Event(PPC_MISS_READ, file, 0, 64 << 10, pid);
    begin.open_id = 0;
    const prefetch_ios* asked = host.ops().ppc_prefetch(&begin);
    ASSERT_NE(asked, nullptr);
    groups[pid - 100] = asked->ios[0].group;
  }
  miss_io jump = host.Event(PPC_MISS_READ, file, 64 * kMiB, 4096, 101);
  jump.open_id = 0;
  EXPECT_EQ(host.ops().ppc_prefetch(&jump), nullptr);
  const size_t interrupts = host.interrupts.size();  // one for each service of the host
  EXPECT_GT(interrupts, 0U);
  miss_io back = host.Event(PPC_PROGRESS, file, 32 * kMiB, 4096, 101);
  back.open_id = 0;
  host.ops().ppc_event(&back);
  EXPECT_GT(host.interrupts.size(), interrupts);
  for (const uint32_t group : host.interrupts) EXPECT_EQ(group, groups[1]);
}

TEST(Readahead, DoesNotReadAheadOfRandomReads) {
  Simulator sim(PolicyPath("readahead"), Options());
  uint64_t file = sim.AddFile("a", 512 * kMiB);
  ASSERT_EQ(sim.Init(), 0);
  Reader r;
  r.bytes_per_ms = 1 << 20;
  for (uint64_t i = 1; i <= 50; i++) {
    r.accesses.push_back({file, i * 7919 % 500 * kMiB + 64 * 4096, 4096, 0, 0});
  }
  sim.readers.push_back(r);
  ASSERT_TRUE(sim.Run(10000));
  EXPECT_EQ(sim.disk_bytes, sim.demand_bytes);
}

TEST(Readahead, RefusesNonsense) {
  HostedPolicy host(PolicyPath("readahead"));
  const std::pair<const char*, const char*> cases[] = {
      {R"({"window_min": "8M", "window_max": "1M"})",
       "readahead: option \"window_max\" must be at least window_min, not \"1M\""},
      {R"({"window_min": 0})", "readahead: option \"window_min\" must be above 0, not 0"},
      {R"({"evict": "yes"})", "readahead: option \"evict\" must be true or false, not \"yes\""},
      {R"({"window_mxa": "1M"})",
       "readahead: there is no option \"window_mxa\"; did you mean 'window_max'? there are "
       "window_min window_max behind evict unmap runtime"}};
  for (const auto& [config, said] : cases) {
    host.log.clear();
    host.SetConfig(nlohmann::json::parse(config));
    EXPECT_NE(host.Init(), 0) << config;
    ASSERT_EQ(host.log.size(), 1u);
    EXPECT_EQ(host.log[0], said);
  }
}

TEST(Eager, QueuesTheWholeDirectoryOnce) {
  HostedPolicy host(PolicyPath("eager"));
  Model model = AddModel(&host, {});
  host.AddFile("other/x.bin", 5 * kMiB);
  ASSERT_EQ(host.Init(), 0);
  EXPECT_EQ(host.want, PPC_WANT_MANAGED_RA);
  EXPECT_EQ(host.ops().ppc_evict, nullptr);
  miss_io miss = host.Event(PPC_MISS_READ, model.config_file, 0, 4096);
  prefetch_ios* list = host.ops().ppc_prefetch(&miss);
  ASSERT_NE(list, nullptr);
  ASSERT_EQ(list->nr, 5u);
  EXPECT_EQ(list->ios[0].file, model.config_file);
  EXPECT_EQ(list->ios[1].file, model.shards[0]);
  EXPECT_EQ(list->ios[1].size, model.shape.shard_bytes);
  EXPECT_EQ(host.ops().ppc_prefetch(&miss), nullptr);
  EXPECT_EQ(host.Exit(), 0);
}

TEST(Eager, TakesFilesFromItsConfiguration) {
  HostedPolicy host(PolicyPath("eager"));
  uint64_t a = host.AddFile("a", kMiB);
  uint64_t b = host.AddFile("b", kMiB);
  host.SetConfig({{"files", {"b", "missing"}}});
  ASSERT_EQ(host.Init(), 0);
  miss_io miss = host.Event(PPC_MISS_READ, a, 0, 4096);
  prefetch_ios* list = host.ops().ppc_prefetch(&miss);
  ASSERT_NE(list, nullptr);
  ASSERT_EQ(list->nr, 1u);
  EXPECT_EQ(list->ios[0].file, b);
  host.Exit();
  for (const char* bad :
       {"{\"files\": 3}", "{\"files\": [3]}", "{\"dir\": []}", "{\"dri\": \"a\"}"}) {
    host.SetConfig(nlohmann::json::parse(bad));
    EXPECT_NE(host.Init(), 0) << bad;
  }
}

TEST(Figure4, RunsUnchanged) {
  HostedPolicy host(PPC_TEST_FIGURE4);
  EXPECT_EQ(host.abi(), PPC_POLICY_ABI);
  uint64_t file = host.AddFile("a.bin", 64 << 20);
  const ppc_operation* ops = &host.ops();
  ASSERT_EQ(host.Init(), 0);
  miss_io miss = host.Event(PPC_MISS_READ, file, 8 << 20, 1 << 20);
  prefetch_ios* ahead = ops->ppc_prefetch(&miss);
  ASSERT_NE(ahead, nullptr);
  ASSERT_EQ(ahead->nr, 1u);
  EXPECT_STREQ(ahead->ios[0].path, "a.bin");
  EXPECT_EQ(ahead->ios[0].offset, 9u << 20);
  EXPECT_EQ(ahead->ios[0].size, 4u << 20);
  evict_ios* behind = ops->ppc_evict(&miss);
  ASSERT_NE(behind, nullptr);
  EXPECT_EQ(behind->ios[0].offset, 6u << 20);
  EXPECT_EQ(behind->ios[0].size, 2u << 20);
  EXPECT_EQ(ops->ppc_evict(nullptr), nullptr);
  EXPECT_EQ(ops->ppc_plan, nullptr);
  EXPECT_EQ(host.Exit(), 0);
}

}  // namespace
}  // namespace ppc::test
