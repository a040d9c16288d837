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

}  // namespace
}  // namespace ppc
