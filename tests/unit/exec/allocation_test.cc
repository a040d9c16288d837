// SPDX-License-Identifier: Apache-2.0
// In steady state the runtime allocates nothing per event: a program of its own, whose operator new
// counts.
#include <gtest/gtest.h>

#include <cstdint>
#include <cstdlib>
#include <new>

#include "tests/unit/exec/executor_fixture.h"

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
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete[](void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, size_t) noexcept { std::free(memory); }
void operator delete[](void* memory, size_t) noexcept { std::free(memory); }

namespace ppc {
namespace {

class AllocationTest : public ExecutorTest {
 protected:
  AllocationTest() {
    backend_.AddFile(2, "a/directory/with/a/long/name/model-00001-of-00002.safetensors",
                     256 * kMiB);
    policy_.event = [this](const miss_io&) { ++events_; };
    policy_.prefetch = [this](const miss_io&) { ++events_; };
    policy_.evict = [](const miss_io*) {};
    policy_.plan = [](const ppc_plan_request&) {};
    policy_.done = [](const ppc_result&) {};
  }
  // Of four services' readers, two files, all kinds.
  void Push(int count) {
    constexpr EventKind kKinds[] = {EventKind::kProgress, EventKind::kMissRead,
                                    EventKind::kMissFault, EventKind::kAccess};
    for (int i = 0; i < count; ++i) {
      Event event = MissEvent(1 + static_cast<uint64_t>(i % 2),
                              static_cast<uint64_t>(i) * kPageBytes * 3 % (256 * kMiB), kPageBytes,
                              10 + i % 4);
      event.kind = kKinds[i / 4 % 4];
      event.time_ns = backend_.NowNs();  // one of later would have to be waited for
      backend_.Push(event);
    }
  }
  // Allocations of as many turns as it takes.
  uint64_t Handle(int count) {
    Push(count);
    const uint64_t seen = events_;
    const uint64_t before = g_allocations;
    while (events_ < seen + static_cast<uint64_t>(count)) (void)runtime_->executor().Pump();
    return g_allocations - before;
  }
  uint64_t events_ = 0;
};

TEST_F(AllocationTest, TheCounterCounts) {
  const uint64_t before = g_allocations;
  const auto one = std::make_unique<uint64_t>(1);
  EXPECT_EQ(g_allocations, before + *one);
}

TEST_F(AllocationTest, NoneForAnEvent) {
  Start();
  for (int i = 0; i < 4; ++i) {
    ASSERT_TRUE(runtime_
                    ->Control({{"op", "service_start"},
                               {"service_id", "service-" + std::to_string(i)},
                               {"workers", 1}})
                    .ok());
  }
  (void)Handle(4096);  // buffers grow
  EXPECT_EQ(Handle(4096), 0u);
  EXPECT_EQ(runtime_->executor().Stats().strangers, 0u);
}

}  // namespace
}  // namespace ppc
