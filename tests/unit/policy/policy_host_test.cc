// SPDX-License-Identifier: Apache-2.0
#include "daemon/policy/policy_host.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <future>
#include <stdexcept>
#include <string>
#include <thread>

#include "daemon/base/clock.h"
#include "daemon/policy/io_check.h"
#include "tests/unit/eventually.h"
#include "tests/unit/has.h"
#include "tests/unit/policy/null_services.h"

namespace ppc {
namespace {

const ppc_context* g_context = nullptr;
int g_exits = 0;
prefetch_ios g_list{};

int GoodInit(void* context) {
  g_context = static_cast<const ppc_context*>(context);
  return 0;
}
int RefusingInit(void*) { return -5; }
int ExplainingInit(void* context) {
  const auto* host = static_cast<const ppc_context*>(context);
  host->log(host, PPC_LOG_ERROR, "\"distance\" is no size");
  return -1;
}
int CountExit() {
  ++g_exits;
  return 0;
}
prefetch_ios* Throwing(miss_io*) { throw std::runtime_error("broken"); }
prefetch_ios* ThrowingInt(miss_io*) { throw 7; }
prefetch_ios* Listing(miss_io*) { return &g_list; }
prefetch_ios* Slow(miss_io*) {
  const uint64_t start = MonotonicNs();
  while (MonotonicNs() - start < 2 * kNsPerMs) {
  }
  return nullptr;
}
const char* Echo(const char* json) { return json; }
const char* NoOp(const char*) { return nullptr; }

class PolicyHostTest : public testing::Test {
 protected:
  PolicyHostTest() { g_exits = 0; }
  PolicyHost Make(const ppc_operation& table, PolicyHostOptions options = {}) {
    return PolicyHost(table, options, &services_, nullptr);
  }
  NullServices services_;
  miss_io miss_{};
};

TEST_F(PolicyHostTest, AnEmptyTableIsAPolicy) {
  PolicyHost host = Make({});
  EXPECT_TRUE(host.Init({}).ok());
  EXPECT_FALSE(host.ManagesReadahead());
  EXPECT_TRUE(host.Prefetch(&miss_).ios.empty());
  host.Tick(1);
  EXPECT_EQ(host.Control("{}").error().code, ENOTSUP);
  host.Exit();
  EXPECT_FALSE(host.IsDropped());
}

TEST_F(PolicyHostTest, ContextReachesInit) {
  PolicyHost host = Make({.ppc_init = GoodInit, .ppc_exit = CountExit});
  ASSERT_TRUE(host.Init({.config = "{\"a\":1}", .mount = "/m", .nr_nodes = 2}).ok());
  EXPECT_STREQ(g_context->config, "{\"a\":1}");
  EXPECT_STREQ(g_context->mount, "/m");
  EXPECT_EQ(g_context->nr_nodes, 2);
  EXPECT_EQ(g_context->now_ns(g_context), 42u);
  EXPECT_EQ(g_context->want(g_context, PPC_WANT_PROGRESS, 0), 0);
  EXPECT_EQ(services_.last_want, PPC_WANT_PROGRESS);
  EXPECT_EQ(g_context->want(g_context, 0x100, 0), -EINVAL);
  EXPECT_EQ(g_context->file_info(g_context, nullptr, nullptr), -EINVAL);
  host.Exit();
  host.Exit();
  EXPECT_EQ(g_exits, 1);
}

TEST_F(PolicyHostTest, InitMayRefuse) {
  PolicyHost host = Make({.ppc_init = RefusingInit, .ppc_exit = CountExit});
  const Status refused = host.Init({});
  ASSERT_FALSE(refused.ok());
  EXPECT_TRUE(Has(refused.error().message, "-5"));
  host.Exit();
  EXPECT_EQ(g_exits, 0);
}

TEST_F(PolicyHostTest, ARefusalCarriesWhatThePolicySaid) {
  const Status refused = Make({.ppc_init = ExplainingInit}).Init({});
  ASSERT_FALSE(refused.ok());
  EXPECT_TRUE(Has(refused.error().message, "(\"distance\" is no size)"));
}

TEST_F(PolicyHostTest, ExceptionsAreCountedThenThePolicyGoes) {
  PolicyHost host = Make({.ppc_exit = CountExit, .ppc_prefetch = Throwing});
  ASSERT_TRUE(host.Init({}).ok());
  EXPECT_TRUE(host.ManagesReadahead());
  EXPECT_TRUE(host.Prefetch(&miss_).ios.empty());
  EXPECT_FALSE(host.IsDropped());
  (void)host.Prefetch(&miss_);
  EXPECT_TRUE(host.IsDropped());
  EXPECT_EQ(host.LastFault(), "ppc_prefetch threw: broken");
  EXPECT_EQ(host.Stats(Hook::kPrefetch).faults, 2u);
  (void)host.Prefetch(&miss_);
  EXPECT_EQ(host.Stats(Hook::kPrefetch).calls, 2u);  // not called any more
  host.Exit();
  EXPECT_EQ(g_exits, 1);
}

TEST_F(PolicyHostTest, OtherExceptionsToo) {
  PolicyHost host = Make({.ppc_prefetch = ThrowingInt}, {.max_faults = 1});
  ASSERT_TRUE(host.Init({}).ok());
  (void)host.Prefetch(&miss_);
  EXPECT_TRUE(host.IsDropped());
}

TEST_F(PolicyHostTest, NonsenseListsAreFaults) {
  PolicyHost host = Make({.ppc_prefetch = Listing}, {.max_faults = 10});
  ASSERT_TRUE(host.Init({}).ok());
  ppc_io io{.file = 1};
  g_list = {.nr = 3, .flags = 0, .ios = nullptr};
  EXPECT_TRUE(host.Prefetch(&miss_).ios.empty());
  EXPECT_EQ(host.Faults(), 1u);
  g_list = {.nr = 1, .flags = 0x80, .ios = &io};
  EXPECT_TRUE(host.Prefetch(&miss_).ios.empty());
  EXPECT_EQ(host.Faults(), 2u);
  g_list = {.nr = 0, .flags = 0, .ios = nullptr};
  EXPECT_TRUE(host.Prefetch(&miss_).ios.empty());
  EXPECT_EQ(host.Faults(), 2u);
  g_list = {.nr = 1, .flags = PPC_IOS_REPLACE, .ios = &io};
  EXPECT_EQ(host.Prefetch(&miss_).ios.size(), 1u);
}

TEST_F(PolicyHostTest, ListsAreBounded) {
  PolicyHost host = Make({.ppc_prefetch = Listing});
  ASSERT_TRUE(host.Init({}).ok());
  std::vector<ppc_io> many(PPC_MAX_IOS + 5);
  g_list = {.nr = PPC_MAX_IOS + 5, .flags = 0, .ios = many.data()};
  const RawList list = host.Prefetch(&miss_);
  EXPECT_EQ(list.ios.size(), PPC_MAX_IOS);
  EXPECT_EQ(list.refused, 5u);
}

TEST_F(PolicyHostTest, SlowHooksAreCountedThenThePolicyGoes) {
  PolicyHost host = Make({.ppc_prefetch = Slow}, {.hook_timeout_ns = kNsPerMs});
  ASSERT_TRUE(host.Init({}).ok());
  (void)host.Prefetch(&miss_);
  EXPECT_EQ(host.Faults(), 1u);
  EXPECT_FALSE(host.IsDropped());
  (void)host.Prefetch(&miss_);
  EXPECT_TRUE(host.IsDropped());
  EXPECT_TRUE(Has(host.LastFault(), "allowed are 1"));
}

TEST_F(PolicyHostTest, ASlowHookNowAndThenIsForgiven) {
  PolicyHost host =
      Make({.ppc_prefetch = Slow}, {.hook_timeout_ns = kNsPerMs, .fault_window_ns = 1});
  ASSERT_TRUE(host.Init({}).ok());
  for (int i = 0; i < 5; ++i) (void)host.Prefetch(&miss_);
  EXPECT_EQ(host.Faults(), 5u);
  EXPECT_FALSE(host.IsDropped());
}

TEST_F(PolicyHostTest, Control) {
  PolicyHost echo = Make({.ppc_control = Echo});
  EXPECT_EQ(*echo.Control("{\"op\":1}"), "{\"op\":1}");
  PolicyHost none = Make({.ppc_control = NoOp});
  EXPECT_EQ(none.Control("{}").error().code, ENOTSUP);
}

// One file of 10000 bytes: number 5, path "a/b".
class OneFile : public FileResolver {
 public:
  bool SizeOf(uint64_t file, uint64_t* bytes) override {
    *bytes = 10000;
    return file == 5;
  }
  bool FindPath(const std::string& path, uint64_t* file, uint64_t* bytes) override {
    *file = 5;
    *bytes = 10000;
    return path == "a/b";
  }
};

class IoCheck : public testing::Test {
 protected:
  IoRefusal Why(const ppc_io& io) {
    IoRefusal why = IoRefusal::kNone;
    range_ = CheckIo(io, &files_, &why);
    EXPECT_EQ(range_.has_value(), why == IoRefusal::kNone);
    return why;
  }
  OneFile files_;
  std::optional<IoRange> range_;
};

TEST_F(IoCheck, RoundsOutwardAndClamps) {
  EXPECT_EQ(Why({.file = 5, .offset = 5000, .size = 100}), IoRefusal::kNone);
  EXPECT_EQ(range_->offset, 4096u);
  EXPECT_EQ(range_->size, 4096u);
  EXPECT_EQ(Why({.path = "a/b", .offset = 0, .size = UINT64_MAX >> 2}), IoRefusal::kNone);
  EXPECT_EQ(range_->file, 5u);
  EXPECT_EQ(range_->size, 12288u);
}

TEST_F(IoCheck, RefusesWhatCannotBe) {
  EXPECT_EQ(Why({.file = 6, .size = 1}), IoRefusal::kFile);
  EXPECT_EQ(Why({.path = "absent", .size = 1}), IoRefusal::kFile);
  EXPECT_EQ(Why({.file = 5, .size = 1, .group = PPC_MAX_GROUPS}), IoRefusal::kGroup);
  EXPECT_EQ(Why({.file = 5, .size = 1, .flags = 0x80}), IoRefusal::kFlags);
  EXPECT_EQ(Why({.file = 5, .offset = UINT64_MAX, .size = 1}), IoRefusal::kRange);
  EXPECT_EQ(Why({.file = 5, .offset = 1, .size = UINT64_MAX}), IoRefusal::kRange);
  EXPECT_EQ(Why({.file = 5, .offset = 0, .size = 0}), IoRefusal::kEmpty);
  EXPECT_EQ(Why({.file = 5, .offset = 12288, .size = 1}), IoRefusal::kEmpty);
  EXPECT_EQ(Why({.size = 1}), IoRefusal::kPath);
}

TEST_F(IoCheck, PathsStayInTheMount) {
  const std::string long_path(5000, 'x');
  for (const char* bad :
       {"/a/b", "../a", "a/../b", "a//b", "a/", "", ".", "a/./b", "..", long_path.c_str()}) {
    EXPECT_EQ(Why({.path = bad, .size = 1}), IoRefusal::kPath) << bad;
  }
  EXPECT_TRUE(IsCleanPath("..a/b..c"));
}

TEST_F(IoCheck, AnUnknownXpuMeansAnywhere) {
  EXPECT_EQ(Why({.file = 5, .size = 1, .xpu = -7}), IoRefusal::kNone);
  EXPECT_EQ(range_->xpu, PPC_NO_XPU);
}

TEST(Watchdog, NoticesAHangAndSaysWhichHook) {
  std::promise<std::string> hung;
  std::atomic<int> busy{0};
  Watchdog watchdog({.period_ns = kNsPerMs,
                     .on_hang = [&](const char* hook, uint64_t) { hung.set_value(hook); },
                     .on_busy = [&] { ++busy; }});
  // As long as it is no hang, the lease is kept.
  watchdog.Arm("ppc_plan", MonotonicNs(), 3600 * kNsPerSec);
  while (busy.load() == 0) std::this_thread::yield();
  watchdog.Disarm();
  watchdog.Arm("ppc_tick", MonotonicNs(), 20 * kNsPerMs);
  EXPECT_EQ(hung.get_future().get(), "ppc_tick");
}

TEST(Watchdog, AHookThatEndedIsNoHang) {
  std::atomic<bool> hung{false};
  std::atomic<pid_t> thread{0};
  std::atomic<int> busy{0};
  Watchdog watchdog({.period_ns = kNsPerMs,
                     .on_hang = [&](const char*, uint64_t) { hung = true; },
                     .on_busy =
                         [&] {
                           thread = gettid();
                           ++busy;
                         }});
  // It began long ago: each turn finds it busy.
  watchdog.Arm("ppc_tick", MonotonicNs() - kNsPerSec, 3600 * kNsPerSec);
  while (busy.load() == 0) std::this_thread::yield();
  watchdog.Disarm();
  const auto pass_turns = [&] {
    const uint64_t before = WaitsOf(thread);
    while (WaitsOf(thread) < before + 3) std::this_thread::yield();
  };
  pass_turns();  // the one that was under way
  const int seen = busy;
  pass_turns();
  EXPECT_EQ(busy, seen);
  EXPECT_FALSE(hung);
}

}  // namespace
}  // namespace ppc
