// SPDX-License-Identifier: Apache-2.0
// Services on several nodes: parts that become one template, nodes that change places.
#include <filesystem>
#include <fstream>

#include "policies/maio/template/store.h"
#include "tests/policy/maio_store_fixture.h"

namespace ppc::test {
namespace {

class MaioNodesTest : public MaioStoreTest {
 protected:
  MaioNodesTest() { setup_ = Large(); }
  // Two nodes with two of four workers each and one directory, as on NFS.
  Setup Large() {
    Setup setup;
    setup.shape.workers = 4;
    setup.shape.shards = 8;
    setup.shape.shard_bytes = 90ull << 20;  // each begins with a tensor of all workers
    return setup;
  }
  Simulator* OnNode(const Setup& setup) {
    sim_.reset();
    sim_ = Make(setup);
    return sim_.get();
  }
  nlohmann::json StartOn(Simulator* sim, uint32_t node, int first_worker = -1) {
    nlohmann::json message = StartMessage({});
    message.update({{"node", node}, {"nodes", 2}});
    if (first_worker >= 0) message["first_worker"] = first_worker;
    return Settle(sim, message);
  }
  void RecordNode(uint32_t node, std::vector<uint32_t> slices) {
    Setup setup = Large();
    setup.order = std::move(slices);
    Simulator* sim = OnNode(setup);
    EXPECT_EQ(StartOn(sim, node)["mode"], "record");
    AddReaders(sim, setup);
    EXPECT_EQ(Finish(sim)["reason"], "template stored");
    sim->RunBackground();
  }
  // Share of this node's bytes that its readers had to load for themselves.
  double DemandOf(uint32_t node, std::vector<uint32_t> slices, int first_worker = -1) {
    Setup setup = Large();
    setup.order = std::move(slices);
    Simulator* sim = OnNode(setup);
    sim->is_remote_silent = is_store_silent_;
    const nlohmann::json started = StartOn(sim, node, first_worker);
    EXPECT_EQ(started["mode"], "use") << started;
    EXPECT_LE(started["groups"].size(), 3u);  // its own two, and what is no worker's
    sim->RunBackground();
    AddReaders(sim, setup);
    for (int again = 0; again < 60000 && !sim->Run(10); again++) sim->RunBackground();
    sim->RunFor(300);
    status_ = End(sim, "service_ready");
    sim->is_remote_silent = false;
    EXPECT_EQ(status_["mode"], "use") << status_;
    uint64_t total = 0;
    uint64_t consumed = 0;
    for (const nlohmann::json& group : status_["groups"]) {
      total += group["total"].get<uint64_t>();
      consumed += group["consumed"].get<uint64_t>();
    }
    unmatched_ = 1 - static_cast<double>(consumed) / static_cast<double>(total);
    return static_cast<double>(sim->demand_bytes) / static_cast<double>(total);
  }
  double unmatched_ = 1;
  bool is_store_silent_ = false;
};

TEST_F(MaioNodesTest, PartsBecomeOneTemplateOfWhichEachNodeTakesItsOwn) {
  RecordNode(0, {0, 1});
  EXPECT_FALSE(IsStored());
  RecordNode(1, {2, 3});
  const maio::Template whole = Stored();
  EXPECT_TRUE(whole.flags & maio::kMerged);
  ExpectTwoOfEachNode(whole);
  EXPECT_LE(DemandOf(0, {0, 1}), 0.05);
  EXPECT_LE(unmatched_, 0.02);
  EXPECT_LE(DemandOf(1, {2, 3}), 0.05);
  EXPECT_LE(unmatched_, 0.02);
}

// The node that was the second is the first now: told by its workers' numbers.
TEST_F(MaioNodesTest, NodesThatChangedPlacesAreToldByTheirWorkers) {
  RecordNode(0, {0, 1});
  RecordNode(1, {2, 3});
  EXPECT_LE(DemandOf(0, {2, 3}, 2), 0.05);
  EXPECT_LE(unmatched_, 0.02);
}

// Told by nobody: what this node reads is in no list of its own.  The template is set aside, and
// the next start records.
TEST_F(MaioNodesTest, ANodeThatReadsAnothersPartRecordsTheNextTime) {
  RecordNode(0, {0, 1});
  RecordNode(1, {2, 3});
  DemandOf(0, {2, 3});
  EXPECT_TRUE(Has(status_["reason"].get<std::string>(), "set aside")) << status_;
  EXPECT_EQ(StartOn(OnNode(Large()), 0)["mode"], "record");
}

// The kernel reads ahead of worker 1 into what worker 2 reads, on the other node.
TEST_F(MaioNodesTest, ReadAheadIntoAnotherNodesSlicesSaysNothing) {
  RecordNode(0, {0, 1});
  RecordNode(1, {2, 3});
  setup_.order = {0, 1};
  Simulator* sim = OnNode(setup_);
  EXPECT_EQ(StartOn(sim, 0)["mode"], "use");
  AddReaders(sim, setup_);
  Reader ahead;
  ahead.pid = 101;  // worker 1
  ahead.xpu = 1;
  ahead.bytes_per_ms = setup_.rate;
  const std::vector<Access> own = WorkerAccesses(model_, 1);
  for (const Access& next : WorkerAccesses(model_, 2)) {
    const auto is_next = [&](const Access& a) {
      return a.file == next.file && a.offset + a.size == next.offset;
    };
    if (std::any_of(own.begin(), own.end(), is_next))
      ahead.accesses.push_back({next.file, next.offset, 64 << 10, 0, sim->ms() + 60000});
  }
  ASSERT_GE(ahead.accesses.size(), 100u);
  sim->readers.push_back(ahead);
  for (int again = 0; again < 60000 && !sim->Run(10); again++) sim->RunBackground();
  sim->RunFor(300);
  const nlohmann::json status = End(sim, "service_ready");
  EXPECT_EQ(status["unknown"], 0) << status;
  EXPECT_TRUE(IsStored());
}

// The store was gone when the part was recorded, and when it was recorded again.
TEST_F(MaioNodesTest, APartThatCouldNotBePutIsPutLater) {
  const std::string shared = nodes_.Root() + "/shared";
  setup_.config["store"] = "dir:" + shared;
  setup_.order = {0, 1};
  uint64_t recorded_ns = 0;
  for (const char* record : {"auto", "always"}) {
    setup_.config["record"] = record;
    if (std::filesystem::exists(shared)) std::filesystem::rename(shared, shared + ".away");
    std::ofstream(shared) << "no directory";
    Simulator* sim = Node("a", setup_);
    StartOn(sim, 0);
    AddReaders(sim, setup_);
    Finish(sim);
    sim->RunBackground();
    EXPECT_EQ(Warnings(*sim), 1u);
    std::filesystem::remove(shared);
    if (std::filesystem::exists(shared + ".away"))
      std::filesystem::rename(shared + ".away", shared);
    setup_.config["record"] = "auto";
    sim = Node("a", setup_);
    EXPECT_EQ(StartOn(sim, 0)["mode"], "use");
    sim->RunBackground();
    EXPECT_EQ(Warnings(*sim), 0u);
    const maio::Template part = Stored(maio::PartPath(shared, kId, 0));
    EXPECT_GT(part.created_ns, recorded_ns);
    recorded_ns = part.created_ns;
  }
}

// Another node's part says nothing of what this one reads.
TEST_F(MaioNodesTest, ANodeWithoutAPartRecords) {
  RecordNode(0, {0, 1});
  Simulator* sim = OnNode(Large());
  EXPECT_EQ(StartOn(sim, 1)["mode"], "record");
  sim->RunBackground();
  EXPECT_EQ(StatusOf(sim)["mode"], "record");
  sim = OnNode(Large());
  EXPECT_EQ(StartOn(sim, 0)["mode"], "use");  // its own is there, the whole is not
}

TEST_F(MaioNodesTest, WrongNumbersAreRefused) {
  Simulator* sim = OnNode(Large());
  EXPECT_TRUE(StartOn(sim, 2).contains("error"));
  EXPECT_TRUE(StartOn(sim, 0, 1023).contains("error"));
  EXPECT_TRUE(
      sim->Control({{"op", "service_start"}, {"service_id", kId}, {"nodes", 2}}).contains("error"));
}

}  // namespace
}  // namespace ppc::test
