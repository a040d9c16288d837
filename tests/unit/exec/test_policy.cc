// SPDX-License-Identifier: Apache-2.0
#include "tests/unit/exec/test_policy.h"

#include <utility>

namespace ppc {
namespace {

TestPolicy* g_policy = nullptr;

}  // namespace

struct TestPolicyHooks {
  static int Init(void* context) { return g_policy->init(static_cast<ppc_context*>(context)); }
  static int Exit() {
    g_policy->exit();
    return 0;
  }
  static prefetch_ios* List() {
    g_policy->prefetch_ = {static_cast<uint32_t>(g_policy->list.size()), g_policy->list_flags,
                           g_policy->list.data()};
    return &g_policy->prefetch_;
  }
  static prefetch_ios* Prefetch(miss_io* miss) {
    g_policy->list.clear();
    g_policy->prefetch(*miss);
    return List();
  }
  static evict_ios* Evict(miss_io* miss) {
    g_policy->evict_list.clear();
    g_policy->evict(miss);
    g_policy->evict_ = {static_cast<uint32_t>(g_policy->evict_list.size()), 0,
                        g_policy->evict_list.data()};
    return &g_policy->evict_;
  }
  static void Event(const miss_io* event) { g_policy->event(*event); }
  static prefetch_ios* Plan(const ppc_plan_request* request) {
    g_policy->list.clear();
    g_policy->plan(*request);
    return List();
  }
  static void Done(const ppc_result* result) { g_policy->done(*result); }
  static const char* Control(const char* json) {
    g_policy->reply_ = g_policy->control(json);
    return g_policy->reply_.empty() ? nullptr : g_policy->reply_.c_str();
  }
  static void Tick(uint64_t now_ns) { g_policy->tick(now_ns); }
};

TestPolicy::TestPolicy() { g_policy = this; }
TestPolicy::~TestPolicy() { g_policy = nullptr; }

ppc_operation TestPolicy::Table() const {
  ppc_operation table{};
  if (init) table.ppc_init = TestPolicyHooks::Init;
  if (exit) table.ppc_exit = TestPolicyHooks::Exit;
  if (prefetch) table.ppc_prefetch = TestPolicyHooks::Prefetch;
  if (evict) table.ppc_evict = TestPolicyHooks::Evict;
  if (event) table.ppc_event = TestPolicyHooks::Event;
  if (plan) table.ppc_plan = TestPolicyHooks::Plan;
  if (done) table.ppc_done = TestPolicyHooks::Done;
  if (control) table.ppc_control = TestPolicyHooks::Control;
  if (tick) table.ppc_tick = TestPolicyHooks::Tick;
  return table;
}

std::unique_ptr<Runtime> MakeRuntime(ReplayBackend* backend, const TestPolicy& policy,
                                     RuntimeConfig config, bool is_threaded) {
  config.mount = "/mnt/test";
  config.policy_name = "test";
  config.manual = !is_threaded;
  // Nothing is kept, unless the test says where.
  if (config.options.template_dir == RuntimeOptions().template_dir)
    config.options.template_dir = "/proc/none";
  if (config.topology.nodes.empty()) config.topology.nodes.push_back(NumaNode{0, {}});
  if (config.options.threads_per_node == 0) config.options.threads_per_node = 2;
  if (!config.memory) {
    config.memory = [backend](std::shared_ptr<const Cgroup>) {
      return std::shared_ptr<MemorySource>(backend, [](MemorySource*) {});
    };
  }
  return std::make_unique<Runtime>(backend, policy.Table(), std::move(config));
}

}  // namespace ppc
