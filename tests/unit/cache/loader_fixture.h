// SPDX-License-Identifier: Apache-2.0
// Owns what the tests of the loader have in common: a pool without threads over a replayed disk.
#ifndef PPC_TESTS_UNIT_CACHE_LOADER_FIXTURE_H_
#define PPC_TESTS_UNIT_CACHE_LOADER_FIXTURE_H_

#include <gtest/gtest.h>

#include <memory>
#include <vector>

#include "daemon/cache/loader_pool.h"
#include "sim/replay/replay_backend.h"
#include "tests/unit/units.h"

namespace ppc {

inline std::vector<NumaNode> Nodes(int count) {
  std::vector<NumaNode> nodes;
  for (int i = 0; i < count; ++i) nodes.push_back(NumaNode{i, {}});
  return nodes;
}

inline uint64_t Count(const LoaderStats& stats, Interruption reason) {
  return stats.interrupted[static_cast<size_t>(reason)];
}

class LoaderPoolTest : public testing::Test {
 protected:
  LoaderPoolTest() {
    backend_ = std::make_unique<ReplayBackend>(ReplayOptions{.memory_limit = 1000 * kMiB});
    backend_->AddFile(1, "a", 256 * kMiB);
    payer_->service = 4;
    payer_->charge = std::make_shared<const ChargeHandle>(backend_.get(), 9);
    payer_->budget = std::make_shared<Budget>(
        std::shared_ptr<MemorySource>(backend_.get(), [](MemorySource*) {}));
    Make({});
  }
  void Make(LoaderPool::Options options, int nodes = 1) {
    if (options.threads_per_node == 0) options.threads_per_node = 1;
    options.manual = true;
    pool_ = std::make_unique<LoaderPool>(backend_.get(), Nodes(nodes), options, &completions_);
  }
  LoadItem Item(uint64_t offset, uint64_t size, uint32_t group = 0, int node = -1) {
    return LoadItem{.file = 1,
                    .offset = offset,
                    .size = size,
                    .cookie = 3,
                    .group = group,
                    .node = node,
                    .payer = payer_};
  }
  void Submit(std::vector<LoadItem> items, bool replaces = false) {
    pool_->Submit(items, replaces);
  }
  std::vector<IoResult> Results() {
    std::vector<IoResult> results;
    completions_.Take(&results);
    return results;
  }
  std::unique_ptr<ReplayBackend> backend_;
  std::shared_ptr<Payer> payer_ = std::make_shared<Payer>();
  Completions completions_;
  std::unique_ptr<LoaderPool> pool_;
};

}  // namespace ppc

#endif  // PPC_TESTS_UNIT_CACHE_LOADER_FIXTURE_H_
