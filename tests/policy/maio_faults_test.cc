// SPDX-License-Identifier: Apache-2.0
//
// MAIO when the world is not as recorded.
#include <filesystem>
#include <fstream>

#include "policies/maio/template/template.h"
#include "tests/policy/maio_fixture.h"

namespace ppc::test {
namespace {

TEST_F(MaioTest, TruncatedTemplateMeansRecording) {
  Setup setup;
  Record(setup);
  std::string path = maio::TemplatePath(store_.path(), kId);
  std::filesystem::resize_file(path, std::filesystem::file_size(path) / 2);
  auto sim = Make(setup);
  nlohmann::json reply = Start(sim.get(), setup);
  EXPECT_EQ(reply["mode"], "record");
  EXPECT_NE(reply["reason"].get<std::string>().find("unusable template"), std::string::npos);
  AddReaders(sim.get(), setup);
  ASSERT_TRUE(sim->Run(60000));
  End(sim.get(), "service_ready");
  maio::Template t;
  std::string error;
  EXPECT_EQ(maio::Load(path, &t, &error), 0) << error;
}

TEST_F(MaioTest, ChangedModelMeansRecording) {
  Setup setup;
  Record(setup);
  setup.shape.tensor_bytes = 2 * kMiB;
  auto sim = std::make_unique<Simulator>(PolicyPath("maio"), setup.options);
  sim->template_dir = store_.path();
  model_ = AddModel(sim.get(), setup.shape);
  for (auto& [number, file] : sim->files) {
    file.mtime_ns = 2;
    file.head = "other";
  }
  ASSERT_EQ(sim->Init(), 0);
  EXPECT_EQ(Start(sim.get(), setup)["mode"], "record");
}

TEST_F(MaioTest, CopiedModelIsStillKnown) {
  Setup setup;
  Record(setup);
  auto sim = std::make_unique<Simulator>(PolicyPath("maio"), setup.options);
  sim->template_dir = store_.path();
  model_ = AddModel(sim.get(), setup.shape);
  for (auto& [number, file] : sim->files) file.mtime_ns = 2;
  ASSERT_EQ(sim->Init(), 0);
  nlohmann::json reply = Start(sim.get(), setup);
  EXPECT_EQ(reply["mode"], "use");
  EXPECT_EQ(reply["stale_files"], 0);
}

TEST_F(MaioTest, OneChangedFileIsLeftOut) {
  Setup setup;
  setup.shape.shards = 12;
  Record(setup);
  auto sim = std::make_unique<Simulator>(PolicyPath("maio"), setup.options);
  sim->template_dir = store_.path();
  model_ = AddModel(sim.get(), setup.shape);
  sim->files[model_.shards[3]].size += 4096;
  ASSERT_EQ(sim->Init(), 0);
  nlohmann::json reply = Start(sim.get(), setup);
  EXPECT_EQ(reply["mode"], "use");
  EXPECT_EQ(reply["stale_files"], 1);
  AddReaders(sim.get(), setup);
  ASSERT_TRUE(sim->Run(60000));
  EXPECT_EQ(sim->native[model_.shards[3]], 1);
  EXPECT_EQ(sim->reread_bytes, 0u);
}

TEST_F(MaioTest, JumpInterruptsAndSkipsTheGap) {
  Setup setup;
  setup.shape.shards = 16;
  setup.shape.shared = false;
  setup.order = {0};
  setup.xpus = setup.reader_xpus = {0};
  setup.shape.workers = 1;
  setup.init_ms = 0;
  setup.rate = 400 << 10;
  Record(setup);
  auto sim = Make(setup);
  Start(sim.get(), setup);
  AddReaders(sim.get(), setup);
  auto& accesses = sim->readers[0].accesses;
  // The reader begins with the last four shards.
  size_t per_shard = (accesses.size() - 1) / 16;
  std::rotate(accesses.begin() + 1, accesses.begin() + 1 + static_cast<long>(per_shard * 12),
              accesses.end());
  sim->RunFor(450);  // 90 MiB at most
  EXPECT_FALSE(sim->interrupts.empty());
  uint64_t tail = 0;
  for (size_t s = 12; s < 16; s++) {
    for (uint64_t at = 0; at < setup.shape.shard_bytes; at += 4096) {
      tail += sim->IsResident(model_.shards[s], at) ? 4096 : 0;
    }
  }
  EXPECT_GE(tail * 100, sim->resident() * 80);
  ASSERT_TRUE(sim->Run(60000));
  EXPECT_EQ(sim->reread_bytes, 0u);
}

TEST_F(MaioTest, WarmStartLoadsOnlyWhatIsAbsent) {
  Setup setup;
  Record(setup);
  auto sim = Use(setup);
  uint64_t first = sim->disk_bytes;
  sim->readers.clear();
  nlohmann::json reply = Start(sim.get(), setup);
  EXPECT_EQ(reply["mode"], "use");
  AddReaders(sim.get(), setup);
  ASSERT_TRUE(sim->Run(60000));
  EXPECT_EQ(sim->disk_bytes, first);
}

TEST_F(MaioTest, RetriedLoadStartsOver) {
  Setup setup;
  Record(setup);
  setup.options.limit = 80 * kMiB;
  auto sim = Make(setup);
  Start(sim.get(), setup);
  AddReaders(sim.get(), setup);
  sim->RunFor(1200);
  sim->readers.clear();  // both workers die in the middle
  sim->RunFor(1500);
  AddReaders(sim.get(), setup);
  for (Reader& r : sim->readers) r.pid += 50;
  ASSERT_TRUE(sim->Run(60000));
  EXPECT_EQ(sim->reclaimed_bytes, 0u);
  EXPECT_LE(sim->peak, setup.options.limit * 85 / 100);
  nlohmann::json status = End(sim.get(), "service_ready");
  EXPECT_GE(status["groups"][0]["consumed"].get<uint64_t>(),
            status["groups"][0]["total"].get<uint64_t>() * 9 / 10)
      << status;
}

// The kernel reads a window for each page that is missed again.
TEST_F(MaioTest, RefaultsCountWhatIsReadForThem) {
  Setup setup;
  setup.shape.shards = 8;
  Record(setup);
  setup.options.limit = 96 * kMiB;
  auto sim = std::make_unique<Simulator>(PolicyPath("maio"), setup.options);
  sim->template_dir = store_.path();
  sim->window_bytes = 128 << 10;
  model_ = AddModel(sim.get(), setup.shape);
  ASSERT_EQ(sim->Init(), 0);
  Start(sim.get(), setup);
  AddReaders(sim.get(), setup);
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
  Setup setup;
  Record(setup);
  setup.options.limit = 128 * kMiB;
  setup.init_ms = 0;
  auto sim = Make(setup);
  Start(sim.get(), setup);
  AddReaders(sim.get(), setup);
  for (Reader& r : sim->readers) {
    for (Access& a : r.accesses) a.flags = PPC_F_NOT_USER;
  }
  ASSERT_TRUE(sim->Run(60000));
  nlohmann::json status = End(sim.get(), "service_stop");
  EXPECT_EQ(status["released"], 0);
  EXPECT_EQ(status["groups"][0]["consumed"], 0);
  EXPECT_GT(status["groups"][0]["front"].get<uint64_t>(), 0u);
}

TEST_F(MaioTest, StopBeforeReadyKeepsAPartialTemplate) {
  Setup setup;
  auto sim = Make(setup);
  Start(sim.get(), setup);
  AddReaders(sim.get(), setup);
  sim->RunFor(1000);
  EXPECT_EQ(End(sim.get(), "service_stop")["reason"], "template stored");
  maio::Template t;
  std::string error;
  ASSERT_EQ(maio::Load(maio::TemplatePath(store_.path(), kId), &t, &error), 0) << error;
  EXPECT_TRUE(t.flags & maio::kPartial);
}

TEST_F(MaioTest, NoTemplateOfHalfALoad) {
  Setup setup;
  // The policy goes in the middle of a recording...
  auto sim = Make(setup);
  Start(sim.get(), setup);
  AddReaders(sim.get(), setup);
  sim->RunFor(1000);
  std::vector<Reader> readers = sim->readers;
  sim.reset();
  EXPECT_FALSE(std::filesystem::exists(maio::TemplatePath(store_.path(), kId)));
  // ...and comes back while the load goes on.
  sim = Make(setup);
  ASSERT_EQ(Start(sim.get(), setup)["mode"], "record");
  for (Reader& r : readers) {
    r.start_ms = 0;
    for (Access& a : r.accesses) a.not_before_ms = 0;
    r.accesses.erase(r.accesses.begin(), r.accesses.begin() + static_cast<long>(r.at) + 1);
    r.at = 0;
    r.done = 0;
  }
  sim->readers = readers;
  ASSERT_TRUE(sim->Run(60000));
  nlohmann::json reply = End(sim.get(), "service_ready");
  EXPECT_NE(reply["reason"].get<std::string>().find("in the middle"), std::string::npos) << reply;
  EXPECT_FALSE(std::filesystem::exists(maio::TemplatePath(store_.path(), kId)));
}

// Whoever reads a vocabulary today is not the worker that read it when it was recorded.
TEST_F(MaioTest, ASmallFileIsNoVote) {
  Setup setup;
  auto begin = [&](size_t reader) {
    auto sim = std::make_unique<Simulator>(PolicyPath("maio"), setup.options);
    sim->template_dir = store_.path();
    model_ = AddModel(sim.get(), setup.shape);
    const uint64_t vocabulary = sim->AddFile("m/vocab.bin", 24 * kMiB);
    EXPECT_EQ(sim->Init(), 0);
    Start(sim.get(), setup);
    AddReaders(sim.get(), setup);
    auto& accesses = sim->readers[reader].accesses;
    accesses.insert(accesses.begin() + 1, {vocabulary, 0, 24 * kMiB, 0, 0});
    return sim;
  };
  auto sim = begin(0);
  ASSERT_TRUE(sim->Run(60000));
  sim->RunFor(50);
  ASSERT_EQ(End(sim.get(), "service_ready")["reason"], "template stored");
  sim.reset();
  sim = begin(1);
  ASSERT_TRUE(sim->Run(60000));
  for (const std::string& line : sim->log) EXPECT_EQ(line.find("reads as"), line.npos) << line;
  EXPECT_EQ(End(sim.get(), "service_ready")["treatment"], "policy");
}

TEST_F(MaioTest, AFileOfTheTemplateIsTakenBackFromTheKernel) {
  Setup setup;
  Record(setup);
  auto sim = Make(setup);
  sim->native[model_.shards[1]] = 1;
  ASSERT_EQ(Start(sim.get(), setup)["mode"], "use");
  EXPECT_EQ(sim->native[model_.shards[1]], 0);
}

TEST_F(MaioTest, AnotherModelIsLeftToTheKernel) {
  Setup setup;
  Record(setup);
  auto sim = std::make_unique<Simulator>(PolicyPath("maio"), setup.options);
  sim->template_dir = store_.path();
  model_ = AddModel(sim.get(), setup.shape);
  uint64_t lora = sim->AddFile("lora/adapter.safetensors", 16 * kMiB);
  ASSERT_EQ(sim->Init(), 0);
  Start(sim.get(), setup);
  AddReaders(sim.get(), setup);
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
  Setup setup;
  setup.shape.shards = 16;
  setup.init_ms = 0;
  Record(setup);
  auto sim = std::make_unique<Simulator>(PolicyPath("maio"), setup.options);
  sim->template_dir = store_.path();
  model_ = AddModel(sim.get(), setup.shape);
  Model other = model_;
  for (uint64_t& file : other.shards) {
    file = sim->AddFile("other/" + std::to_string(file) + ".safetensors", setup.shape.shard_bytes);
  }
  ASSERT_EQ(sim->Init(), 0);
  ASSERT_EQ(Start(sim.get(), setup)["mode"], "use");
  std::swap(model_, other);
  AddReaders(sim.get(), setup);
  ASSERT_TRUE(sim->Run(60000));
  nlohmann::json status = End(sim.get(), "service_stop");
  EXPECT_LT(status["loaded"].get<uint64_t>(), model_.bytes() / 2) << status;
  EXPECT_EQ(status["groups"][0]["state"], "LOST");
  EXPECT_EQ(Start(sim.get(), setup)["mode"], "record");
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
    PolicyLibrary library(PolicyPath("maio"));
    FakeHost host;
    host.SetConfig(nlohmann::json::parse(text));
    EXPECT_NE(library.ops()->ppc_init(host.context()), 0) << text;
    EXPECT_EQ(host.log.size(), 1u) << text;
  }
}

}  // namespace
}  // namespace ppc::test
