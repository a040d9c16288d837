// SPDX-License-Identifier: Apache-2.0
// Directories of which one lies below another: the lower one has the files there.
#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "tests/unit/backend/observer_shared_fixture.h"

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
  std::unique_ptr<ObserverBackend> Watch(const std::string& dir,
                                         ObserverFiles::Limits limits = {}) {
    const Result<uint32_t> number = set_->AddDirectory();
    EXPECT_TRUE(number);
    last_ = *number;
    auto backend = Observe(dir, *number, limits);
    EXPECT_TRUE(backend->Attach({}));
    return backend;
  }
  // Files of this folder are told to `has`, and to it alone.
  static void ExpectTold(const std::string& dir, ObserverBackend* has, ObserverBackend* other) {
    ReadCold(dir);
    EXPECT_EQ(Misses(has), kModel) << dir;
    EXPECT_EQ(Misses(other), 0u) << dir;
  }
  // Looks at what is registered below are a second apart.
  static void Settle() { sleep(3); }

  std::string outer_;
  std::string inner_;
  uint32_t last_ = 0;
  std::unique_ptr<Attacher> attacher_;
};

TEST_F(ObserverBelowTest, TheInnermostWinsWhicheverIsRegisteredFirst) {
  for (const bool outer_first : {true, false}) {
    auto first = Watch(outer_first ? outer_ : inner_);
    const uint32_t first_number = last_;
    auto second = Watch(outer_first ? inner_ : outer_);
    ObserverBackend* const outer = outer_first ? first.get() : second.get();
    ObserverBackend* const inner = outer_first ? second.get() : first.get();
    ExpectTold(inner_, inner, outer);
    ExpectTold(outer_, outer, inner);
    Settle();  // what the other one does when it has noticed changes nothing
    ExpectTold(inner_, inner, outer);
    ExpectTold(outer_, outer, inner);
    second.reset();
    set_->RemoveDirectory(last_);
    first.reset();
    set_->RemoveDirectory(first_number);
  }
}

TEST_F(ObserverBelowTest, ANewFileIsTheInnermosts) {
  const auto inner = Watch(inner_);
  const auto outer = Watch(outer_);
  Make("outer/inner/later");
  uint64_t missed = 0;
  for (int i = 0; i < 20 && missed == 0; ++i) {
    ReadCold(inner_ + "/later");
    missed = Misses(inner.get());
    EXPECT_EQ(Misses(outer.get()), 0u);
  }
  EXPECT_GT(missed, 0u);
}

TEST_F(ObserverBelowTest, WithoutTheInnerOneItIsTheOuterOnes) {
  const auto outer = Watch(outer_);
  auto inner = Watch(inner_);
  ExpectTold(inner_, inner.get(), outer.get());
  inner.reset();
  set_->RemoveDirectory(last_);
  Settle();
  uint64_t missed = 0;
  for (int i = 0; i < 20 && missed == 0; ++i) {
    ReadCold(inner_);
    missed = Misses(outer.get());
  }
  EXPECT_GT(missed, 0u);
}

TEST_F(ObserverBelowTest, DiscoveredFilesAreTheInnermostsToo) {
  for (const char* const name : {"a", "b", "c"}) Make(std::string("outer/inner/") + name);
  const ObserverFiles::Limits few{.listed = 1, .in_kernel = 16};
  const auto outer = Watch(outer_, few);
  const auto inner = Watch(inner_, few);
  Settle();
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
