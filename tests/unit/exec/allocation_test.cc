// SPDX-License-Identifier: Apache-2.0
// In steady state neither the runtime nor MAIO allocates per event: a program of its own, whose
// operator new counts, the policy library's calls included.
#include <gtest/gtest.h>

#include <cstdint>
#include <cstdlib>
#include <new>

#include "daemon/exec/runtime.h"
#include "daemon/policy/plugin.h"
#include "policies/maio/template/template.h"
#include "sim/replay/replay_backend.h"
#include "tests/unit/has.h"
#include "tests/unit/temp_tree.h"

namespace {

uint64_t g_allocations = 0;

void* Counted(size_t bytes) {
  ++g_allocations;
  if (void* const memory = std::malloc(bytes)) return memory;
  throw std::bad_alloc();
}

}  // namespace

void* operator new(size_t bytes) { return Counted(bytes); }
void* operator new[](size_t bytes) { return Counted(bytes); }
void* operator new(size_t bytes, const std::nothrow_t&) noexcept {
  ++g_allocations;
  return std::malloc(bytes);
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete[](void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, size_t) noexcept { std::free(memory); }
void operator delete[](void* memory, size_t) noexcept { std::free(memory); }

namespace ppc {
namespace {

constexpr uint64_t kMiB = 1 << 20;
constexpr int kServices = 4;
constexpr int kWorkers = 4;                     // of each
constexpr int kReaders = kServices * kWorkers;  // in all
constexpr uint64_t kShare = 64 * kMiB;          // that one of them reads, in order
constexpr uint64_t kStep = 64 << 10;
constexpr int kFirstPid = 100;

std::string IdOf(int service) { return "service-" + std::to_string(service); }
std::string ModelOf(int service) { return "a/directory/with/a/long/name/" + IdOf(service); }

class AllocationTest : public testing::Test {
 protected:
  void SetUp() override {
    for (int service = 0; service < kServices; ++service) AddService(service);
    std::unique_ptr<Plugin> plugin =
        Value(Plugin::Open(PPC_TEST_POLICY_DIR "/libppc_maio.so", {.allow_any_owner = true}));
    plugin_ = std::move(plugin);
    RuntimeConfig config;
    config.mount = "/mnt/test";
    config.policy_name = "maio";
    config.manual = true;
    config.roots = SysRoots{tree_.Root(), tree_.Root()};
    config.options.template_dir = tree_.Root();
    config.options.nap_ns =
        0;  // time stands still: names are looked up now and then, not per event
    config.topology.nodes.push_back(NumaNode{0, {}});
    config.memory = [this](const std::shared_ptr<const Cgroup>&) {
      return std::shared_ptr<MemorySource>(&backend_, [](MemorySource*) {});
    };
    runtime_ = std::make_unique<Runtime>(&backend_, plugin_->table(), std::move(config));
    ASSERT_TRUE(IsOk(runtime_->Start()));
    for (int service = 0; service < kServices; ++service) {
      ASSERT_TRUE(
          runtime_
              ->Control(
                  {{"op", "service_start"}, {"service_id", IdOf(service)}, {"workers", kWorkers}})
              .ok());
    }
  }
  // A template of it, its model, and the processes that say whose they are.
  void AddService(int service) {
    maio::Template t;
    t.service_id = IdOf(service);
    t.flags = maio::kComplete | maio::kTraced;
    t.files.push_back({ModelOf(service), kShare * kWorkers, 0, maio::FileKind::kSafetensors, {}});
    for (uint32_t worker = 0; worker < kWorkers; ++worker) {
      maio::TemplateGroup group;
      group.id = worker;
      group.extents = {{0, worker * kShare / maio::kPage, kShare / maio::kPage}};
      t.groups.push_back(std::move(group));
      const std::string process =
          "/proc/" + std::to_string(PidOf(service, static_cast<int>(worker)));
      tree_.Write(process + "/status", "Name:\tx\nUid:\t0\t0\t0\t0\n");
      tree_.Write(process + "/environ", "PPC_SERVICE_ID=" + IdOf(service) + '\0' +
                                            "PPC_WORKER=" + std::to_string(worker) + '\0');
    }
    std::string error;
    ASSERT_EQ(maio::Store(tree_.Root(), t, &error), 0) << error;
    backend_.AddFile(FileOf(service), ModelOf(service), kShare * kWorkers);
  }
  static int PidOf(int service, int worker) { return kFirstPid + service * kWorkers + worker; }
  static uint64_t FileOf(int service) { return 1 + static_cast<uint64_t>(service); }
  // The services, and the workers of each, take turns; all kinds.
  void Push() {
    constexpr EventKind kKinds[] = {EventKind::kProgress, EventKind::kMissRead,
                                    EventKind::kMissFault, EventKind::kAccess};
    const int service = pushed_ % kServices;
    const int worker = pushed_ / kServices % kWorkers;
    const uint64_t step = static_cast<uint64_t>(pushed_ / kReaders);
    const int pid = PidOf(service, worker);
    backend_.Push({.file = FileOf(service),
                   .offset = static_cast<uint64_t>(worker) * kShare + step * kStep % kShare,
                   .length = kPageBytes,
                   .time_ns = backend_.NowNs(),  // one of later would have to be waited for
                   .start_ns = 1,
                   .tgid = pid,
                   .tid = pid,
                   .kind = kKinds[step % std::size(kKinds)]});
    ++pushed_;
  }
  // Allocations of the turns that handle so many events; what they lead to is done between them.
  uint64_t Handle(int count) {
    constexpr int kAtOnce = 8;
    uint64_t allocations = 0;
    for (int i = 0; i < count; i += kAtOnce) {
      for (int j = 0; j < kAtOnce; ++j) Push();
      const uint64_t before = g_allocations;
      (void)runtime_->executor().RunOnce();
      allocations += g_allocations - before;
      runtime_->loader().RunUntilIdle();
    }
    return allocations;
  }
  // The models are in the cache then.
  void Settle() {
    for (int quiet = 0; quiet < 3; ++quiet) {
      const uint64_t before = runtime_->loader().Stats().loaded;
      (void)runtime_->executor().RunOnce();
      runtime_->loader().RunUntilIdle();
      if (runtime_->loader().Stats().loaded != before) quiet = -1;
    }
  }
  // Bytes that each service has gone through, in all.
  std::vector<uint64_t> Consumed() {
    std::vector<uint64_t> consumed;
    const Result<Json> status = runtime_->Control({{"op", "status"}});
    if (!status) return consumed;
    for (const Json& service : status->at("services")) {
      EXPECT_EQ(service["mode"], "use");
      uint64_t& sum = consumed.emplace_back();
      for (const Json& group : service["groups"]) sum += group["consumed"].get<uint64_t>();
    }
    return consumed;
  }
  TempTree tree_;
  ReplayBackend backend_{{.loads_take_time = false}};
  std::unique_ptr<Plugin> plugin_;
  std::unique_ptr<Runtime> runtime_;
  int pushed_ = 0;
};

TEST_F(AllocationTest, TheCounterCounts) {
  const uint64_t before = g_allocations;
  const auto one = std::make_unique<uint64_t>(1);
  EXPECT_EQ(g_allocations, before + *one);
  // The library's own, too.
  const uint64_t ours = g_allocations;
  (void)plugin_->table().ppc_control("{\"op\":\"status\"}");
  EXPECT_GT(g_allocations, ours);
}

TEST_F(AllocationTest, NoneForAnEvent) {
  constexpr int kEvents = 4096;
  (void)Handle(kEvents);  // buffers grow
  const std::vector<uint64_t> before = Consumed();
  EXPECT_EQ(Handle(kEvents), 0u);
  const std::vector<uint64_t> after = Consumed();
  ASSERT_EQ(before.size(), static_cast<size_t>(kServices));
  ASSERT_EQ(after.size(), before.size());
  for (size_t i = 0; i < after.size(); ++i)
    EXPECT_GE(after[i], before[i] + kEvents / kServices * kStep * 9 / 10) << i;
  EXPECT_EQ(runtime_->executor().Stats().strangers, 0u);
}

}  // namespace
}  // namespace ppc
