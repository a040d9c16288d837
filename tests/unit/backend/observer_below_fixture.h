// SPDX-License-Identifier: Apache-2.0
// Owns two observed directories of which one lies below the other.
#ifndef PPC_TESTS_UNIT_BACKEND_OBSERVER_BELOW_FIXTURE_H_
#define PPC_TESTS_UNIT_BACKEND_OBSERVER_BELOW_FIXTURE_H_

#include <memory>
#include <string>

#include "tests/unit/backend/observer_shared_fixture.h"
#include "tests/unit/has.h"

namespace ppc {

inline constexpr uint64_t kModel = 1 << 20;

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

}  // namespace ppc

#endif  // PPC_TESTS_UNIT_BACKEND_OBSERVER_BELOW_FIXTURE_H_
