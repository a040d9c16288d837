// SPDX-License-Identifier: Apache-2.0
// Owns a policy for tests whose hooks are std::functions, and a runtime around it on the
// replay backend.
#ifndef PPC_TESTS_UNIT_EXEC_TEST_POLICY_H_
#define PPC_TESTS_UNIT_EXEC_TEST_POLICY_H_

#include <ppc.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "daemon/exec/runtime.h"
#include "sim/replay/replay_backend.h"

namespace ppc {

// Only one at a time: the table's functions are plain C functions.
class TestPolicy {
 public:
  TestPolicy();
  ~TestPolicy();

  // A hook that is not set here stays NULL in the table.
  std::function<int(ppc_context*)> init;
  std::function<void()> exit;
  std::function<void(const miss_io&)> prefetch;  // fills `list`
  std::function<void(const miss_io*)> evict;     // fills `evict_list`
  std::function<void(const miss_io&)> event;
  std::function<void(const ppc_plan_request&)> plan;  // fills `list`
  std::function<void(const ppc_result&)> done;
  std::function<std::string(const std::string&)> control;
  std::function<void(uint64_t)> tick;

  std::vector<ppc_io> list;
  uint32_t list_flags = 0;
  std::vector<ppc_io> evict_list;

  ppc_operation Table() const;

 private:
  friend struct TestPolicyHooks;
  prefetch_ios prefetch_{};
  evict_ios evict_{};
  std::string reply_;
};

// Turned by hand, or with threads as in a runner.
std::unique_ptr<Runtime> MakeRuntime(ReplayBackend* backend, const TestPolicy& policy,
                                     RuntimeConfig config = {}, bool is_threaded = false);

inline Event MissEvent(uint64_t file, uint64_t offset, uint64_t length, int tid = 10) {
  return Event{
      .file = file, .offset = offset, .length = length, .start_ns = 1, .tgid = tid, .tid = tid};
}

}  // namespace ppc

#endif  // PPC_TESTS_UNIT_EXEC_TEST_POLICY_H_
