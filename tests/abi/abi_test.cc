// SPDX-License-Identifier: Apache-2.0
// The interface headers as C++20, and what must agree between them.
#include <gtest/gtest.h>

#include <cerrno>
#include <cstring>
#include <memory>
#include <stdexcept>
#include <string>

#include "ppc.h"
#include "ppc.hpp"
#include "ppc/control.h"
#include "ppc/uapi.h"
#include "tests/abi/layout.h"
// After the headers: they use their types.
#include "tests/abi/policy_layout.inc"
#include "tests/abi/uapi_layout.inc"

extern "C" int ppc_abi_from_c(void);

namespace {

TEST(Abi, CAndCxxAgree) { EXPECT_EQ(ppc_abi_from_c(), static_cast<int>(PPC_POLICY_ABI)); }

// The daemon hands kernel numbers to policies as they are.
TEST(Abi, EventNumbersAreTheKernels) {
  EXPECT_EQ(static_cast<int>(PPC_MISS_READ), static_cast<int>(PPC_EV_MISS_READ));
  EXPECT_EQ(static_cast<int>(PPC_MISS_FAULT), static_cast<int>(PPC_EV_MISS_FAULT));
  EXPECT_EQ(static_cast<int>(PPC_PROGRESS), static_cast<int>(PPC_EV_PROGRESS));
  EXPECT_EQ(static_cast<int>(PPC_ACCESS), static_cast<int>(PPC_EV_ACCESS));
  EXPECT_EQ(static_cast<int>(PPC_OPEN), static_cast<int>(PPC_EV_OPEN));
  EXPECT_EQ(static_cast<int>(PPC_CLOSE), static_cast<int>(PPC_EV_CLOSE));
  EXPECT_EQ(PPC_F_NOT_USER, static_cast<unsigned>(PPC_EVF_NOT_USER));
  EXPECT_EQ(PPC_F_WRITE, static_cast<unsigned>(PPC_EVF_WRITE));
  EXPECT_EQ(PPC_F_HIT, static_cast<unsigned>(PPC_EVF_HIT));
  EXPECT_EQ(PPC_F_DIRECT, static_cast<unsigned>(PPC_EVF_DIRECT));
  EXPECT_EQ(PPC_F_LOST, static_cast<unsigned>(PPC_EVF_LOST));
  EXPECT_EQ(PPC_F_MMAP, static_cast<unsigned>(PPC_EVF_MMAP));
  EXPECT_EQ(PPC_IO_UNMAP, static_cast<unsigned>(PPC_EVICT_UNMAP));
  EXPECT_EQ(PPC_IO_EVEN_LOCKED, static_cast<unsigned>(PPC_EVICT_EVEN_LOCKED));
  EXPECT_EQ(PPC_IO_DRAIN, static_cast<unsigned>(PPC_EVICT_DRAIN));
}

// ppc.hpp: what a class does not override stays NULL, what throws does not leave.
class Thrower : public ppc::Policy {
 public:
  int Init() override { return 0; }
  prefetch_ios* Prefetch(const miss_io&) override { throw 42; }
  void Tick(uint64_t) override { throw std::runtime_error("tick"); }
  const char* Control(const char*) override { throw std::runtime_error("control"); }
};
class Derived : public Thrower {};
class Refuser : public ppc::Policy {
 public:
  int Init() override { throw std::runtime_error("no"); }
};

TEST(PolicyClass, OnlyOverriddenHooksAreSet) {
  ppc_operation* t = ppc::internal::Bridge<Derived>::Table();
  EXPECT_NE(t->ppc_init, nullptr);
  EXPECT_NE(t->ppc_prefetch, nullptr);
  EXPECT_NE(t->ppc_tick, nullptr);
  EXPECT_EQ(t->ppc_evict, nullptr);
  EXPECT_EQ(t->ppc_plan, nullptr);
  EXPECT_EQ(t->ppc_done, nullptr);
  EXPECT_EQ(t->ppc_event, nullptr);
}

TEST(PolicyClass, NoExceptionLeaves) {
  static std::string log;
  ppc_context context = {};
  context.log = [](const ppc_context*, int, const char* text) { log += text; };
  ppc_operation* t = ppc::internal::Bridge<Thrower>::Table();
  miss_io miss = {};
  EXPECT_EQ(t->ppc_prefetch(&miss), nullptr);  // before init: nothing
  ASSERT_EQ(t->ppc_init(&context), 0);
  EXPECT_EQ(t->ppc_prefetch(&miss), nullptr);
  t->ppc_tick(0);
  EXPECT_NE(std::strstr(t->ppc_control("{}"), "error"), nullptr);
  EXPECT_NE(log.find("ppc_tick failed: tick"), std::string::npos);
  EXPECT_EQ(t->ppc_exit(), 0);
  EXPECT_NE(ppc::internal::Bridge<Refuser>::Table()->ppc_init(&context), 0);
}

// A host that keeps the pair it is given.
struct BackgroundHost {
  BackgroundHost() {
    context.size = sizeof(context);
    context.host = this;
    context.log = [](const ppc_context* c, int, const char* text) {
      static_cast<BackgroundHost*>(c->host)->log += text;
    };
    context.background = [](const ppc_context* c, void (*first)(void*), void (*second)(void*),
                            void* given) {
      auto* self = static_cast<BackgroundHost*>(c->host);
      self->work = first;
      self->done = second;
      self->arg = given;
      return self->code;
    };
  }
  ppc_context context = {};
  std::string log;
  void (*work)(void*) = nullptr;
  void (*done)(void*) = nullptr;
  void* arg = nullptr;
  int code = 0;
};

TEST(PolicyClass, BackgroundTakesClosures) {
  BackgroundHost host;
  ppc::Policy policy;
  policy.set_context(&host.context);
  auto held = std::make_shared<int>(0);
  const auto use = [held](int add) { return [held, add] { *held += add; }; };
  ASSERT_EQ(policy.Background(use(1), use(10)), 0);
  host.work(host.arg);
  EXPECT_EQ(*held, 1);
  host.done(host.arg);
  EXPECT_EQ(*held, 11);
  // What throws does not leave, and done() is owed all the same.
  ASSERT_EQ(policy.Background([] { throw std::runtime_error("disk"); }, use(100)), 0);
  host.work(host.arg);
  host.done(host.arg);
  EXPECT_EQ(*held, 111);
  EXPECT_EQ(host.log, "background work failed: disk");
  host.code = -EAGAIN;
  EXPECT_EQ(policy.Background(use(1), nullptr), -EAGAIN);
  EXPECT_EQ(held.use_count(), 2);  // here and in `use`: nothing leaks
  // A host older than the call.
  host.context.size = offsetof(ppc_context, background);
  EXPECT_EQ(policy.Background(use(1), nullptr), -ENOSYS);
}

TEST(PolicyClass, ListsOwnTheirPaths) {
  ppc::IoList list;
  EXPECT_EQ(list.Prefetch(), nullptr);
  for (int i = 0; i < 100; i++) list.Add("file" + std::to_string(i), 0, 1).group = 3;
  list.set_flags(PPC_IOS_REPLACE);
  prefetch_ios* ios = list.Prefetch();
  ASSERT_EQ(ios->nr, 100u);
  EXPECT_STREQ(ios->ios[0].path, "file0");
  EXPECT_STREQ(ios->ios[99].path, "file99");
  EXPECT_EQ(ios->ios[5].xpu, PPC_NO_XPU);
  EXPECT_EQ(ios->flags, PPC_IOS_REPLACE);
  list.Clear();
  EXPECT_EQ(list.Evict(), nullptr);
}

}  // namespace
