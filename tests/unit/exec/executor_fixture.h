// SPDX-License-Identifier: Apache-2.0
// A runtime over a replayed machine, turned by hand.
#ifndef PPC_TESTS_UNIT_EXEC_EXECUTOR_FIXTURE_H_
#define PPC_TESTS_UNIT_EXEC_EXECUTOR_FIXTURE_H_

#include <gtest/gtest.h>

#include <memory>
#include <utility>

#include "daemon/exec/executor.h"
#include "tests/unit/exec/test_policy.h"
#include "tests/unit/units.h"

namespace ppc {

class ExecutorTest : public testing::Test {
 protected:
  ExecutorTest() { backend_.AddFile(1, "model/a", 256 * kMiB); }
  ~ExecutorTest() override {
    // What the hooks of a test refer to is gone; shutting down still calls some.
    policy_.done = [](const ppc_result&) {};
    policy_.exit = [] {};
  }
  void Start(RuntimeConfig config = {}, bool is_threaded = false) {
    runtime_ = MakeRuntime(&backend_, policy_, std::move(config), is_threaded);
    const Status started = runtime_->Start();
    ASSERT_TRUE(started.ok()) << started.error().message;
  }
  void StartTwoServices() {
    policy_.control = [](const std::string&) { return std::string("{}"); };
    Start();
    for (const char* const id : {"one", "two"})
      ASSERT_TRUE(runtime_->Control({{"op", "service_start"}, {"service_id", id}}).ok());
  }
  // With threads, as in a runner.  What a test's locals give to hooks must be over when it returns.
  void StartThreaded(RuntimeConfig config = {}) { Start(std::move(config), /*is_threaded=*/true); }
  // Turns until `turns` have gone by, loading and evicting in between.
  Executor::End Turn(int turns = 1) {
    Executor::End end = Executor::End::kRunning;
    for (int i = 0; i < turns && end == Executor::End::kRunning; ++i) {
      end = runtime_->executor().RunOnce();
      runtime_->loader().RunUntilIdle();
      while (runtime_->evictor().RunOne()) {
      }
    }
    return end;
  }
  ReplayBackend backend_{{.memory_limit = 100 * kMiB}};
  TestPolicy policy_;
  std::unique_ptr<Runtime> runtime_;
};

}  // namespace ppc

#endif  // PPC_TESTS_UNIT_EXEC_EXECUTOR_FIXTURE_H_
