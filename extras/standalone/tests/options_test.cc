// SPDX-License-Identifier: Apache-2.0
#include "extras/standalone/options.h"

#include <gtest/gtest.h>

#include <array>
#include <cerrno>

#include "tests/unit/has.h"

namespace ppc {
namespace {

template <typename... Words>
Result<RunnerOptions> Parse(Words... words) {
  std::array<char*, sizeof...(words)> arguments = {const_cast<char*>(words)...};
  return ParseRunnerOptions(arguments);
}

TEST(RunnerOptions, ADirectoryAndItsPolicyAreEnough) {
  const RunnerOptions options = Value(Parse("--mount", "/m", "--policy", "maio"));
  EXPECT_TRUE(options.is_standalone);
  EXPECT_EQ(options.mount, "/m");
  EXPECT_EQ(options.policy, "maio");
  EXPECT_EQ(options.backend, "auto");
  EXPECT_EQ(options.config, "{}");
}

TEST(RunnerOptions, OneWithoutTheOtherIsRefused) {
  EXPECT_EQ(Parse("--mount", "/m").error().code, EINVAL);
  EXPECT_TRUE(Has(Parse("--policy", "maio").error().message, "--mount and --policy"));
}

TEST(RunnerOptions, HelpNeedsNeither) {
  const RunnerOptions options = Value(Parse("--help"));
  EXPECT_FALSE(options.is_standalone);
  EXPECT_TRUE(Has(options.text, "--record"));
}

}  // namespace
}  // namespace ppc
