// SPDX-License-Identifier: Apache-2.0
// MAIO when the world is not as recorded.
#include <filesystem>

#include "policies/maio/template/template.h"
#include "tests/policy/maio_fixture.h"

namespace ppc::test {
namespace {

TEST_F(MaioTest, TruncatedTemplateMeansRecording) {
  Record(setup_);
  std::filesystem::resize_file(Path(), std::filesystem::file_size(Path()) / 2);
  auto sim = Make(setup_);
  nlohmann::json reply = Start(sim.get(), setup_);
  EXPECT_EQ(reply["mode"], "record");
  EXPECT_TRUE(Has(reply["reason"].get<std::string>(), "unusable template"));
  AddReaders(sim.get(), setup_);
  Finish(sim.get());
  Stored();
}

TEST_F(MaioTest, ACopiedModelIsKnownAndAChangedOneIsNot) {
  Record(setup_);
  for (const bool is_changed : {false, true}) {
    auto sim = Make(setup_, [&](Simulator* made) {
      for (auto& [number, file] : made->files) {
        file.mtime_ns = 2;
        if (is_changed) file.head = "other";
      }
    });
    const nlohmann::json started = Start(sim.get(), setup_);
    EXPECT_EQ(started["mode"], is_changed ? "record" : "use") << started;
    EXPECT_TRUE(is_changed || started["stale_files"] == 0) << started;
  }
}

TEST_F(MaioTest, OneChangedFileIsLeftOut) {
  setup_.shape.shards = 12;
  Record(setup_);
  auto sim = Make(setup_, [&](Simulator* made) { made->files[model_.shards[3]].size += 4096; });
  nlohmann::json reply = Start(sim.get(), setup_);
  EXPECT_EQ(reply["mode"], "use");
  EXPECT_EQ(reply["stale_files"], 1);
  AddReaders(sim.get(), setup_);
  ASSERT_TRUE(sim->Run(60000));
  EXPECT_EQ(sim->native[model_.shards[3]], 1);
  EXPECT_EQ(sim->reread_bytes, 0u);
}

// Another file has taken its name between the look at the files and the first read.
TEST_F(MaioTest, AShardThatIsReplacedDuringTheStartIsLeftToItsReaders) {
  setup_.shape.shards = 12;
  Record(setup_);
  uint64_t fresh = 0;
  auto sim = Begin(setup_, "use", [&](Simulator* made) {
    fresh = made->AddFile("new", made->files[model_.shards[3]].size);
  });
  sim->files[fresh].path = sim->files[model_.shards[3]].path;
  sim->files.erase(model_.shards[3]);
  for (Reader& r : sim->readers) {
    for (Access& a : r.accesses) a.file = a.file == model_.shards[3] ? fresh : a.file;
  }
  ASSERT_TRUE(sim->Run(60000));
  EXPECT_EQ(sim->native[fresh], 1);
  EXPECT_LE(sim->demand_bytes, sim->files[fresh].size + 2 * kMiB) << "the others are as always";
  End(sim.get(), "service_ready");
  auto next = Make(setup_);
  EXPECT_EQ(Start(next.get(), setup_)["mode"], "record");
}

TEST_F(MaioTest, JumpInterruptsAndSkipsTheGap) {
  setup_.shape.shards = 16;
  setup_.shape.shared = false;
  setup_.order = {0};
  setup_.xpus = setup_.reader_xpus = {0};
  setup_.shape.workers = 1;
  setup_.init_ms = 0;
  setup_.rate = 400 << 10;
  Record(setup_);
  auto sim = Begin(setup_);
  auto& accesses = sim->readers[0].accesses;
  // The reader begins with the second half.
  size_t per_shard = (accesses.size() - 1) / 16;
  std::rotate(accesses.begin() + 1, accesses.begin() + 1 + static_cast<long>(per_shard * 8),
              accesses.end());
  sim->RunFor(900);  // 180 MiB at most
  EXPECT_FALSE(sim->interrupts.empty());
  uint64_t tail = 0;
  for (size_t s = 8; s < 16; s++) {
    for (uint64_t at = 0; at < setup_.shape.shard_bytes; at += 4096) {
      tail += sim->IsResident(model_.shards[s], at) ? 4096 : 0;
    }
  }
  EXPECT_GE(tail * 100, sim->resident() * 80);
  ASSERT_TRUE(sim->Run(60000));
  EXPECT_EQ(sim->reread_bytes, 0u);
}

// A neighbour drops the page cache: what lay ahead of the reader is loaded again.
TEST_F(MaioTest, WhatVanishesIsLoadedAgain) {
  setup_.rate = 100 << 10;
  Record(setup_);
  auto sim = Make(setup_);
  Start(sim.get(), setup_);
  AddReaders(sim.get(), setup_);
  sim->RunFor(setup_.init_ms + 100);
  const uint64_t before = sim->demand_bytes;
  const uint64_t there = sim->resident();
  ASSERT_GT(there, 32 * kMiB);
  sim->DropAll();
  ASSERT_TRUE(sim->Run(60000));
  EXPECT_LE(sim->demand_bytes - before, there / 8);
  End(sim.get(), "service_ready");
}

TEST_F(MaioTest, RetriedLoadStartsOver) {
  Record(setup_);
  setup_.options.limit = 80 * kMiB;
  auto sim = Begin(setup_);
  sim->RunFor(1200);
  sim->readers.clear();  // both workers die in the middle
  sim->RunFor(1500);
  AddReaders(sim.get(), setup_);
  for (Reader& r : sim->readers) r.pid += 50;
  ASSERT_TRUE(sim->Run(60000));
  EXPECT_EQ(sim->reclaimed_bytes, 0u);
  EXPECT_LE(sim->peak, setup_.options.limit * 85 / 100);
  nlohmann::json status = End(sim.get(), "service_ready");
  EXPECT_GE(status["groups"][0]["consumed"].get<uint64_t>(),
            status["groups"][0]["total"].get<uint64_t>() * 9 / 10)
      << status;
}

// The kernel reads a window for each page that is missed again.
TEST_F(MaioTest, RefaultsCountWhatIsReadForThem) {
  setup_.shape.shards = 8;
  Record(setup_);
  setup_.options.limit = 96 * kMiB;
  auto sim = Begin(setup_, nullptr, [](Simulator* made) { made->window_bytes = 128 << 10; });
  ASSERT_TRUE(sim->Run(60000));
  ASSERT_FALSE(sim->IsResident(model_.shards[0], 0));
  sim->readers.resize(1);
  sim->readers[0].accesses = {{model_.shards[0], 0, 2 * kMiB, 0, 0}};  // no second pass yet
  sim->readers[0].at = 0;
  ASSERT_TRUE(sim->Run(60000));
  sim->RunFor(50);
  nlohmann::json status = End(sim.get(), "service_stop");
  EXPECT_EQ(sim->refault_bytes, 2 * kMiB);
  EXPECT_EQ(status["refaults"], sim->refault_bytes) << status;
}

TEST_F(MaioTest, PopulateMovesPrefetchButNotEviction) {
  Record(setup_);
  setup_.options.limit = 128 * kMiB;
  setup_.init_ms = 0;
  auto sim = Begin(setup_);
  Populate(sim.get());
  ASSERT_TRUE(sim->Run(60000));
  nlohmann::json status = End(sim.get(), "service_stop");
  EXPECT_EQ(status["released"], 0);
  EXPECT_EQ(status["groups"][0]["consumed"], 0);
  EXPECT_GT(status["groups"][0]["front"].get<uint64_t>(), 0u);
}

TEST_F(MaioTest, StopBeforeReadyKeepsAPartialTemplate) {
  auto sim = Begin(setup_);
  sim->RunFor(1000);
  EXPECT_EQ(End(sim.get(), "service_stop")["reason"], "template stored");
  const maio::Template t = Stored();
  EXPECT_TRUE(t.flags & maio::kPartial);
}

TEST_F(MaioTest, NoTemplateOfHalfALoad) {
  // The policy goes in the middle of a recording...
  auto sim = Begin(setup_);
  sim->RunFor(1000);
  std::vector<Reader> readers = sim->readers;
  sim.reset();
  EXPECT_FALSE(IsStored());
  // ...and comes back while the load goes on.
  sim = Make(setup_);
  ASSERT_EQ(Start(sim.get(), setup_)["mode"], "record");
  for (Reader& r : readers) {
    r.start_ms = 0;
    for (Access& a : r.accesses) a.not_before_ms = 0;
    r.accesses.erase(r.accesses.begin(), r.accesses.begin() + static_cast<long>(r.at) + 1);
    r.at = 0;
    r.done = 0;
  }
  sim->readers = readers;
  nlohmann::json reply = Finish(sim.get());
  EXPECT_TRUE(Has(reply["reason"].get<std::string>(), "in the middle")) << reply;
  EXPECT_FALSE(IsStored());
}

// Whoever reads a vocabulary today is not the worker that read it when it was recorded.
TEST_F(MaioTest, ASmallFileIsNoVote) {
  auto begin = [&](size_t reader) {
    uint64_t vocabulary = 0;
    auto sim = Begin(setup_, nullptr, [&](Simulator* made) {
      vocabulary = made->AddFile("m/vocab.bin", 24 * kMiB);
    });
    auto& accesses = sim->readers[reader].accesses;
    accesses.insert(accesses.begin() + 1, {vocabulary, 0, 24 * kMiB, 0, 0});
    return sim;
  };
  auto sim = begin(0);
  ASSERT_EQ(Finish(sim.get())["reason"], "template stored");
  sim.reset();
  sim = begin(1);
  ASSERT_TRUE(sim->Run(60000));
  for (const std::string& line : sim->log) EXPECT_EQ(line.find("reads as"), line.npos) << line;
  EXPECT_EQ(End(sim.get(), "service_ready")["treatment"], "policy");
}

TEST_F(MaioTest, AFileOfTheTemplateIsTakenBackFromTheKernel) {
  Record(setup_);
  auto sim = Make(setup_);
  sim->native[model_.shards[1]] = 1;
  ASSERT_EQ(Start(sim.get(), setup_)["mode"], "use");
  EXPECT_EQ(sim->native[model_.shards[1]], 0);
}

TEST_F(MaioTest, AnotherModelIsLeftToTheKernel) {
  Record(setup_);
  uint64_t lora = 0;
  auto sim = Begin(setup_, nullptr, [&](Simulator* made) {
    lora = made->AddFile("lora/adapter.safetensors", 16 * kMiB);
  });
  sim->readers[0].accesses.insert(sim->readers[0].accesses.begin() + 1, {lora, 0, 16 * kMiB, 0, 0});
  ASSERT_TRUE(sim->Run(60000));
  EXPECT_EQ(sim->native[lora], 1);
  EXPECT_EQ(sim->reread_bytes, 0u);
  End(sim.get(), "service_ready");
  EXPECT_EQ(sim->native[lora], 0);  // the next service may know it
}

// The service reads another model under the same ID: no more is prefetched of the recorded one,
// and the next start records.
TEST_F(MaioTest, AnotherModelEndsPrefetch) {
  setup_.shape.shards = 16;
  setup_.init_ms = 0;
  Record(setup_);
  Model other;
  auto sim = Make(setup_, [&](Simulator* made) {
    made->window_bytes = 4 * kMiB;  // readers get their part of the disk beside the loads
    other = model_;
    for (uint64_t& file : other.shards) {
      const std::string path = "other/" + std::to_string(file) + ".safetensors";
      file = made->AddFile(path, setup_.shape.shard_bytes);
    }
  });
  ASSERT_EQ(Start(sim.get(), setup_)["mode"], "use");
  std::swap(model_, other);
  AddReaders(sim.get(), setup_);
  ASSERT_TRUE(sim->Run(60000));
  nlohmann::json status = End(sim.get(), "service_stop");
  EXPECT_LT(status["loaded"].get<uint64_t>(), model_.bytes() / 2) << status;
  EXPECT_EQ(status["groups"][0]["state"], "LOST");
  EXPECT_EQ(Start(sim.get(), setup_)["mode"], "record");
}

TEST_F(MaioTest, BadMessagesAreRefused) {
  auto sim = Make(Setup());
  for (const char* text :
       {"{\"op\": \"service_start\"}", "{\"op\": \"service_start\", \"service_id\": \"../../x\"}",
        "{\"op\": \"service_start\", \"service_id\": \"abcd\", \"xpus\": 3}",
        "{\"op\": \"service_start\", \"service_id\": \"abcd\", \"workers\": \"two\"}",
        "{\"op\": \"service_ready\", \"service_id\": \"nobody\"}", "{\"op\": 3}", "{}"}) {
    EXPECT_TRUE(sim->Control(nlohmann::json::parse(text)).contains("error")) << text;
  }
  EXPECT_TRUE(sim->Control({{"op", "dance"}}).is_null());
  EXPECT_EQ(sim->want, 0u);
}

TEST_F(MaioTest, BadConfigurationIsRefused) {
  for (const char* text : {"{\"distance\": \"1X\"}", "{\"bar\": 1}", "{\"record\": \"sometimes\"}",
                           "{\"at_ready\": true}"}) {
    HostedPolicy host(PolicyPath("maio"));
    host.SetConfig(nlohmann::json::parse(text));
    EXPECT_NE(host.Init(), 0) << text;
    EXPECT_EQ(host.log.size(), 1u) << text;
  }
}

}  // namespace
}  // namespace ppc::test
