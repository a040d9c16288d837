// SPDX-License-Identifier: Apache-2.0
// Owns Result<T>: a value or an Error.  Nothing here throws.
#ifndef PPC_DAEMON_BASE_RESULT_H_
#define PPC_DAEMON_BASE_RESULT_H_

#include <cstring>
#include <string>
#include <utility>
#include <variant>

namespace ppc {

// `code` is a positive errno value; `message` is one line that names the thing and the remedy.
struct [[nodiscard]] Error {
  int code = 0;
  std::string message;
};

// "open /dev/ppc0: Permission denied" with the errno kept.
inline Error PosixError(const std::string& what, int code) {
  return Error{code, what + ": " + std::strerror(code)};
}

template <typename T>
class [[nodiscard]] Result {
 public:
  Result(T value) : state_(std::in_place_index<0>, std::move(value)) {}      // NOLINT: implicit
  Result(Error error) : state_(std::in_place_index<1>, std::move(error)) {}  // NOLINT: implicit

  bool ok() const { return state_.index() == 0; }
  explicit operator bool() const { return ok(); }

  // Only when ok().
  T& value() & { return *std::get_if<0>(&state_); }
  const T& value() const& { return *std::get_if<0>(&state_); }
  T&& value() && { return std::move(*std::get_if<0>(&state_)); }
  T& operator*() & { return value(); }
  const T& operator*() const& { return value(); }
  T&& operator*() && { return std::move(*this).value(); }
  T* operator->() { return &value(); }
  const T* operator->() const { return &value(); }

  // Only when not ok().
  const Error& error() const& { return *std::get_if<1>(&state_); }
  Error&& error() && { return std::move(*std::get_if<1>(&state_)); }

 private:
  std::variant<T, Error> state_;
};

struct Unit {};

// The result of something that has no value: `return Ok();` or an Error.
using Status = Result<Unit>;
inline Status Ok() { return Unit{}; }

}  // namespace ppc

#endif  // PPC_DAEMON_BASE_RESULT_H_
