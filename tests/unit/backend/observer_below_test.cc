// SPDX-License-Identifier: Apache-2.0
// Directories of which one lies below another: the lower one has the files there.
#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "tests/unit/backend/observer_shared_fixture.h"
#include "tests/unit/has.h"

namespace ppc {
namespace {

constexpr uint64_t kModel = 1 << 20;

class ObserverBelowTest : public ObserverSharedTest {
 protected:
  void SetUp() override {
    ASSERT_NO_FATAL_FAILURE(ObserverSharedTest::SetUp());
    if (set_ == nullptr) return;
    outer_ = Make("outer");
    inner_ = Make("outer/inner");
    attacher_ = std::make_unique<Attacher>(set_.get());
  }
  void TearDown() override {
    attacher_.reset();
    ObserverSharedTest::TearDown();
  }
  std::unique_ptr<ObserverBackend> Register(const std::string& dir,
                                            ObserverFiles::Limits limits = {}) {
    const Result<uint32_t> number = set_->AddDirectory();
    EXPECT_TRUE(number);
    last_ = *number;
    auto backend = Observe(dir, *number, limits);
    Watch(backend.get());
    return backend;
  }
  // Files of this folder are told to `has`, and to it alone.
  void ExpectTold(const std::string& dir, ObserverBackend* has, ObserverBackend* other) {
    ReadCold(dir);
    EXPECT_EQ(Misses(has), kModel) << dir;
    EXPECT_EQ(Misses(other), 0u) << dir;
  }
  std::string outer_;
  std::string inner_;
  uint32_t last_ = 0;
  std::unique_ptr<Attacher> attacher_;
};

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

TEST_F(ObserverBelowTest, DiscoveredFilesAreTheInnermostsToo) {
  for (const char* const name : {"a", "b", "c"}) Make(std::string("outer/inner/") + name);
  const ObserverFiles::Limits few{.listed = 1, .in_kernel = 16};
  const auto outer = Register(outer_, few);
  const auto inner = Register(inner_, few);
  // The outer one notices some time later.
  EXPECT_TRUE(Eventually([&] {
    ReadCold(inner_);
    return Misses(inner.get()) > 0 && Misses(outer.get()) == 0;
  }));
  for (const char* const name : {"a", "b", "c"}) {
    ReadCold(inner_ + "/" + name);
    std::array<Event, 512> batch;
    // Numbers that were not looked up yet: the runtime does, and drops those that are not ours.
    for (ObserverBackend* const backend : {outer.get(), inner.get()}) {
      const size_t got = backend->Drain(batch);
      for (size_t i = 0; i < got; ++i) {
        const Result<FileInfo> info = backend->Resolve(batch[i].file, nullptr);
        EXPECT_EQ(info.ok(), backend == inner.get()) << name;
      }
      if (backend == inner.get()) {
        EXPECT_GT(got, 0u) << name;
      }
    }
    ReadCold(inner_ + "/" + name);
    EXPECT_GT(Misses(inner.get()), 0u) << name;
    EXPECT_EQ(Misses(outer.get()), 0u) << name;
  }
}

}  // namespace
}  // namespace ppc
