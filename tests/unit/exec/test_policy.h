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

  // It asks for these when it begins; `context` is what it was given then.
  void Want(uint32_t what, uint64_t beacon_bytes = 0) {
    init = [this, what, beacon_bytes](ppc_context* given) {
      context = given;
      return context->want(context, what, beacon_bytes);
    };
  }
  // It plans file 1 from `*next` to `*end`, 8 MiB at a time.
  void LoadAhead(uint64_t* next, const uint64_t* end) {
    plan = [this, next, end](const ppc_plan_request&) {
      if (*next >= *end) return;
      list = {{.file = 1, .offset = *next, .size = 8 << 20}};
      *next += 8 << 20;
    };
  }

  ppc_context* context = nullptr;
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
inline Event ProgressEvent(uint64_t file, uint64_t offset, int tid = 10, uint8_t flags = 0) {
  Event event = MissEvent(file, offset, kPageBytes, tid);
  event.kind = EventKind::kProgress;
  event.flags = flags;
  return event;
}

}  // namespace ppc

#endif  // PPC_TESTS_UNIT_EXEC_TEST_POLICY_H_
