// SPDX-License-Identifier: Apache-2.0
// Owns the project's digests: SHA-256 (libmd's) and its keyed form, for names and seals; and
// CRC-32C, which detects partly written data.
// Threads: pure functions, any thread.
#ifndef PPC_DAEMON_BASE_DIGESTS_H_
#define PPC_DAEMON_BASE_DIGESTS_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <span>
#include <string>
#include <string_view>

namespace ppc {

using Sha256Digest = std::array<uint8_t, 32>;

// Digests data that comes in pieces.
class Sha256 {
 public:
  Sha256();
  ~Sha256();
  Sha256(const Sha256&) = delete;
  Sha256& operator=(const Sha256&) = delete;

  void Update(std::string_view data);
  void Update(std::span<const uint8_t> data);
  // Exactly one of the two, once, at the end.
  Sha256Digest Finish();
  std::string Hex();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

Sha256Digest Sha256Of(const void* data, size_t bytes);
// Digests the concatenated parts.
Sha256Digest Sha256Of(std::initializer_list<std::span<const uint8_t>> parts);
// 64 lower-case hexadecimal digits.
std::string Sha256Hex(std::string_view data);

// RFC 2104, of the concatenated parts.
Sha256Digest HmacSha256(std::string_view secret,
                        std::initializer_list<std::span<const uint8_t>> parts);
std::string HmacSha256Hex(std::string_view secret, std::string_view data);

// RFC 3720; continues from `crc`, that of the data before.  No linked library has it: zlib's CRC-32
// uses another polynomial.
uint32_t Crc32c(const void* data, size_t bytes, uint32_t crc = 0);

// Lower-case hexadecimal digits.
std::string Hex(const uint8_t* data, size_t bytes);

}  // namespace ppc

#endif  // PPC_DAEMON_BASE_DIGESTS_H_
