// SPDX-License-Identifier: Apache-2.0
// Owns what the executor's parts need around them: a replayed machine, whose loads and drops are
// recorded, and nothing that works by itself.
#ifndef PPC_TESTS_UNIT_EXEC_PARTS_FIXTURE_H_
#define PPC_TESTS_UNIT_EXEC_PARTS_FIXTURE_H_

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "daemon/exec/policy_lists.h"
#include "tests/unit/exec/test_policy.h"
#include "tests/unit/policy/null_services.h"
#include "tests/unit/temp_tree.h"
#include "tests/unit/units.h"

namespace ppc {

class RecordingBackend : public ReplayBackend {
 public:
  RecordingBackend() : ReplayBackend({}) {}
  Result<LoadResult> Load(const LoadRequest& request) override {
    loads.push_back(request);
    return ReplayBackend::Load(request);
  }
  Result<EvictResult> Evict(const EvictRequest& request) override {
    evicts.push_back(request);
    return ReplayBackend::Evict(request);
  }
  size_t Drain(std::span<Event> batch) override {
    if (!flood) return ReplayBackend::Drain(batch);
    std::fill(batch.begin(), batch.end(), *flood);
    return batch.size();
  }
  void KeepName(uint64_t) override { ++kept_names; }
  size_t kept_names = 0;
  std::vector<LoadRequest> loads;
  std::vector<EvictRequest> evicts;
  std::optional<Event> flood;  // without end
};

class PartsTest : public testing::Test {
 protected:
  PartsTest() {
    backend_.AddFile(1, "model/a", 256 * kMiB);
    EXPECT_TRUE(backend_.Attach({.progress = true}).ok());
    topology_.nodes = {NumaNode{0, {}}, NumaNode{1, {}}};
    topology_.xpus = {Xpu{.node = 1}};
    services_ = std::make_unique<ServiceTable>(
        &backend_, &topology_, SysRoots{tree_.Root(), tree_.Root()},
        [this](const std::shared_ptr<const Cgroup>&) {
          return std::shared_ptr<MemorySource>(&backend_, [](MemorySource*) {});
        });
    EXPECT_TRUE(services_->OpenDefault("").ok());
    loader_ = std::make_unique<LoaderPool>(
        &backend_, topology_.nodes, LoaderPool::Options{.threads_per_node = 1, .manual = true},
        &completions_);
  }
  // Once the policy has its hooks.
  PolicyLists* MakeLists() {
    host_ = std::make_unique<PolicyHost>(policy_.Table(), PolicyHostOptions{}, &nothing_, nullptr);
    EXPECT_TRUE(host_->Init({}).ok());
    lists_ = std::make_unique<PolicyLists>(PolicyLists::Parts{
        &backend_, loader_.get(), &evictor_, host_.get(), &files_, services_.get(), &topology_});
    return lists_.get();
  }

  TempTree tree_;
  RecordingBackend backend_;
  TestPolicy policy_;
  NullServices nothing_;
  Topology topology_;
  Completions completions_;
  FileTable files_{&backend_};
  std::unique_ptr<ServiceTable> services_;
  std::unique_ptr<LoaderPool> loader_;
  Evictor evictor_{&backend_, Evictor::Options{.manual = true}, &completions_};
  std::unique_ptr<PolicyHost> host_;
  std::unique_ptr<PolicyLists> lists_;
};

}  // namespace ppc

#endif  // PPC_TESTS_UNIT_EXEC_PARTS_FIXTURE_H_
