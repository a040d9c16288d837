// SPDX-License-Identifier: Apache-2.0
//
// What a service takes for itself before it reads its model is not filled with the model first.
#include <gtest/gtest.h>

#include <filesystem>
#include <utility>

#include "tests/policy/maio_fixture.h"

namespace ppc::test {
namespace {

class MaioOwnMemoryTest : public MaioTest {
 protected:
  // A start whose service takes memory of its own before it reads.
  std::unique_ptr<Simulator> Run(const Setup& setup, uint64_t own) {
    auto sim = Make(setup);
    Start(sim.get(), setup);
    AddReaders(sim.get(), setup);
    sim->RunFor(setup.init_ms - 100);
    sim->set_other(own);
    EXPECT_TRUE(sim->Run(120000));
    sim->RunFor(300);
    EXPECT_EQ(End(sim.get(), "service_ready").value("error", ""), "");
    EXPECT_EQ(sim->evicted_of[1], sim->evicted_bytes);
    return sim;
  }
};

TEST_F(MaioOwnMemoryTest, ItIsLeftOnceItIsKnown) {
  Setup setup;
  setup.shape.shard_bytes = 192ull << 20;
  setup.shape.tensor_bytes = 24ull << 20;
  setup.rate = 480 << 10;
  setup.options.disk_bytes_per_ms = 1600 << 10;
  setup.init_ms = 2000;
  const uint64_t bytes = Model{setup.shape, 0, {}}.bytes();
  const uint64_t own = bytes / 12;
  setup.options.limit = bytes / 2;
  Run(setup, 0);  // recorded when it took nothing
  const auto unaware = Run(setup, own);
  EXPECT_GT(unaware->reread_bytes, own / 2);
  EXPECT_GT(unaware->evicted_bytes, own);
  for (const auto& entry : std::filesystem::directory_iterator(store_.path()))
    std::filesystem::remove_all(entry);
  Run(setup, own);
  const auto aware = Run(setup, own);
  EXPECT_LT(aware->reread_bytes, unaware->reread_bytes / 4);
  EXPECT_LE(aware->ms(), unaware->ms());
  // Another time it takes less, and what was left is loaded as soon as it reads.
  const auto modest = Run(setup, 0);
  EXPECT_LT(modest->reread_bytes, own / 4);
  // Where it was recorded without a limit it is known as well.
  for (const auto& entry : std::filesystem::directory_iterator(store_.path()))
    std::filesystem::remove_all(entry);
  const uint64_t limit = std::exchange(setup.options.limit, 64ull << 30);
  setup.options.is_cgroup = false;
  Run(setup, own);
  setup.options.limit = limit;
  setup.options.is_cgroup = true;
  const auto limited = Run(setup, own);
  EXPECT_LT(limited->reread_bytes, unaware->reread_bytes / 4);
}

}  // namespace
}  // namespace ppc::test
