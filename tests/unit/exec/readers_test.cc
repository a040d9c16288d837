// SPDX-License-Identifier: Apache-2.0
#include "daemon/exec/readers.h"

#include <gtest/gtest.h>

namespace ppc {
namespace {

constexpr int kPid = 10;
constexpr uint64_t kStartNs = 1000;

std::shared_ptr<const Members> OneService() {
  auto members = std::make_shared<Members>();
  members->services.push_back({.number = 3, .id = "svc-one"});
  members->bound[kPid] = {kStartNs, "svc-one"};
  return members;
}

TEST(ReadersTest, WhoCouldNotBeLookedUpIsNoStranger) {
  Readers readers{SysRoots()};
  bool has_room = false;
  readers.Use(
      [&](std::function<void()> work, std::function<void()> done) {
        if (!has_room) return false;
        work();
        done();
        return true;
      },
      [] {});
  readers.SetMembers(OneService());
  EXPECT_EQ(readers.Find(kPid, kStartNs, 0, 1), nullptr);
  has_room = true;
  (void)readers.Find(kPid, kStartNs, 0, 2);
  const Reader* const reader = readers.Find(kPid, kStartNs, 0, 3);
  ASSERT_NE(reader, nullptr);
  EXPECT_EQ(reader->service, 3);
}

// Look-ups that the test answers.
class AskedReadersTest : public testing::Test {
 protected:
  AskedReadersTest() {
    readers_.Use(
        [this](std::function<void()> work, std::function<void()> done) {
          asked_.push_back([work, done] {
            work();
            done();
          });
          return true;
        },
        [] {});
  }
  void AnswerAll() {
    for (const auto& answer : std::exchange(asked_, {})) answer();
  }
  static std::shared_ptr<Members> Two() {
    auto members = std::make_shared<Members>(*OneService());
    members->services[0].processes = first_;
    members->services.push_back({.number = 4, .id = "svc-two"});
    return members;
  }
  static inline const auto first_ =
      std::make_shared<ProcessXpu>(SysRoots(), std::vector<int>(), nullptr);
  Readers readers_{SysRoots()};
  std::vector<std::function<void()>> asked_;
};

TEST_F(AskedReadersTest, WhoseServiceStaysIsKnownWhileOthersComeAndGo) {
  readers_.SetMembers(Two());
  (void)readers_.Find(kPid, kStartNs, 0, 1);
  AnswerAll();
  for (int change = 0; change < 10; ++change) {
    readers_.SetMembers(Two());
    const Reader* const reader = readers_.Find(kPid, kStartNs, 0, 2);
    ASSERT_NE(reader, nullptr) << change;
    EXPECT_EQ(reader->service, 3);
    EXPECT_EQ(asked_.size(), 1u) << "once, not with each event";
    (void)readers_.Find(kPid, kStartNs, 0, 2);
  }
  auto moved = Two();
  moved->bound[kPid].id = "svc-two";
  readers_.SetMembers(moved);
  AnswerAll();
  AnswerAll();
  EXPECT_EQ(readers_.Find(kPid, kStartNs, 0, 3)->service, 4);
  moved = Two();
  moved->services.pop_back();
  readers_.SetMembers(moved);
  EXPECT_EQ(readers_.Find(kPid, kStartNs, 0, 4), nullptr) << "its service has ended";
}

TEST_F(AskedReadersTest, OfTooManySomeAreForgotten) {
  constexpr int kProcesses = 4200;
  readers_.SetMembers(OneService());
  for (int pid = 1; pid <= kProcesses; ++pid) {
    (void)readers_.Find(pid, kStartNs, 0, 1);
    AnswerAll();
  }
  int known = 0;
  for (int pid = 1; pid <= kProcesses; ++pid)
    known += readers_.Find(pid, kStartNs, 0, 2) != nullptr ? 1 : 0;
  EXPECT_GT(known, 3000);
}

}  // namespace
}  // namespace ppc
