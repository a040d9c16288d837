// SPDX-License-Identifier: Apache-2.0
// Owns taking texts apart: lines, words, numbers; and the environment's texts.
// Threads: pure functions, any thread.
#ifndef PPC_DAEMON_BASE_TEXT_H_
#define PPC_DAEMON_BASE_TEXT_H_

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>

namespace ppc {

// Returns the text before the next `end`, or all; *text becomes the rest behind it.
inline std::string_view Cut(std::string_view* text, char end) {
  const size_t at = std::min(text->find(end), text->size());
  const std::string_view first = text->substr(0, at);
  text->remove_prefix(std::min(at + 1, text->size()));
  return first;
}

// nullopt: the text is not one number from its beginning to its end.
template <typename Number>
std::optional<Number> WholeNumber(std::string_view text) {
  Number number = 0;
  const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (code != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return number;
}

// The number that the text begins with; 0 if it begins with none.
template <typename Number>
Number LeadingNumber(std::string_view text) {
  Number number = 0;
  (void)std::from_chars(text.data(), text.data() + text.size(), number);
  return number;
}

// `fallback` where there is no such variable, or an empty one.
inline std::string FromEnvironment(const char* name, const std::string& fallback = "") {
  const char* value = std::getenv(name);
  return value == nullptr || *value == '\0' ? fallback : value;
}

}  // namespace ppc

#endif  // PPC_DAEMON_BASE_TEXT_H_
