// SPDX-License-Identifier: Apache-2.0
// Owns the hash that names services and artifacts (libmd's), and its keyed form.
#ifndef PPC_DAEMON_WIRE_SHA256_H_
#define PPC_DAEMON_WIRE_SHA256_H_

#include <memory>
#include <string>
#include <string_view>

namespace ppc::control {

// 64 lower-case hexadecimal digits.
std::string Sha256Hex(std::string_view data);

// The same of data that comes in pieces.
class Sha256 {
 public:
  Sha256();
  ~Sha256();
  Sha256(const Sha256&) = delete;
  Sha256& operator=(const Sha256&) = delete;

  void Update(std::string_view data);
  // Once, at the end.
  std::string Hex();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// RFC 2104, 64 digits, too.
std::string HmacSha256Hex(std::string_view secret, std::string_view data);

}  // namespace ppc::control

#endif  // PPC_DAEMON_WIRE_SHA256_H_
