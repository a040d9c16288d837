// SPDX-License-Identifier: Apache-2.0
// Owns what many tests ask: whether a text has a part, and how often; whether there is a result,
// and for its value.  EXPECT_TRUE(Has(text, part)) and ASSERT_TRUE(IsOk(result)) say why not.
#ifndef PPC_TESTS_UNIT_HAS_H_
#define PPC_TESTS_UNIT_HAS_H_

#include <gtest/gtest.h>

#include <stdexcept>
#include <string_view>
#include <utility>

#include "daemon/base/result.h"

namespace ppc {

inline testing::AssertionResult Has(std::string_view text, std::string_view part) {
  const bool has = text.find(part) != std::string_view::npos;
  return (has ? testing::AssertionSuccess() : testing::AssertionFailure())
         << (has ? "has '" : "lacks '") << part << "': " << text;
}

inline size_t CountOf(std::string_view part, std::string_view text) {
  size_t count = 0;
  for (size_t at = text.find(part); at != text.npos; at = text.find(part, at + 1)) ++count;
  return count;
}

template <typename T>
testing::AssertionResult IsOk(const Result<T>& result) {
  return result.ok() ? testing::AssertionSuccess()
                     : testing::AssertionFailure() << result.error().message;
}

// Without one the test ends here, as failed.
template <typename T>
T Value(Result<T> result) {
  if (!result.ok()) throw std::runtime_error(result.error().message);
  return *std::move(result);
}

// There is none, for this reason, which is one line that names the thing.
template <typename T>
void ExpectError(const Result<T>& result, int code, std::string_view part = "") {
  ASSERT_FALSE(result.ok());
  EXPECT_EQ(result.error().code, code) << result.error().message;
  EXPECT_TRUE(Has(result.error().message, part));
  EXPECT_FALSE(Has(result.error().message, "\n"));
}

}  // namespace ppc

#endif  // PPC_TESTS_UNIT_HAS_H_
