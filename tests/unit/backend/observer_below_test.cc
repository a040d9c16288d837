// SPDX-License-Identifier: Apache-2.0
// Directories of which one lies below another: the lower one has the files there.
#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "tests/unit/backend/observer_below_fixture.h"
#include "tests/unit/has.h"

namespace ppc {
namespace {

TEST_F(ObserverBelowTest, TheInnermostWinsWhicheverIsRegisteredFirst) {
  for (const bool outer_first : {true, false}) {
    auto first = Register(outer_first ? outer_ : inner_);
    const uint32_t first_number = last_;
    const FileInfo listed = Value(first->Lookup(outer_first ? "inner/model" : "model"));
    auto second = Register(outer_first ? inner_ : outer_);
    ObserverBackend* const outer = outer_first ? first.get() : second.get();
    ObserverBackend* const inner = outer_first ? second.get() : first.get();
    ExpectTold(inner_, inner, outer);
    ExpectTold(outer_, outer, inner);
    // What the outer one does when it has noticed changes nothing.  Registered second it knew.
    EXPECT_TRUE(!outer_first ||
                Eventually([&] { return !outer->Resolve(listed.file, nullptr).ok(); }));
    ExpectTold(inner_, inner, outer);
    ExpectTold(outer_, outer, inner);
    second.reset();
    set_->RemoveDirectory(last_);
    first.reset();
    set_->RemoveDirectory(first_number);
  }
}

TEST_F(ObserverBelowTest, ANewFileIsTheInnermosts) {
  const auto inner = Register(inner_);
  const auto outer = Register(outer_);
  Make("outer/inner/later");
  EXPECT_TRUE(IsToldAtLast(inner.get(), inner_ + "/later"));
  EXPECT_EQ(Misses(outer.get()), 0u);
}

TEST_F(ObserverBelowTest, WithoutTheInnerOneItIsTheOuterOnes) {
  const auto outer = Register(outer_);
  auto inner = Register(inner_);
  ExpectTold(inner_, inner.get(), outer.get());
  inner.reset();
  set_->RemoveDirectory(last_);
  EXPECT_TRUE(IsToldAtLast(outer.get(), inner_));
}

}  // namespace
}  // namespace ppc
