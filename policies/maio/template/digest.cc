// SPDX-License-Identifier: Apache-2.0
//
// CRC-32C (RFC 3720), and SHA-256 by libmd.  Pure functions, any thread.
#include "policies/maio/template/digest.h"

#include <sha2.h>

namespace ppc::maio {
namespace {

constexpr std::array<uint32_t, 256> MakeCrcTable() {
  std::array<uint32_t, 256> table = {};
  for (uint32_t i = 0; i < 256; i++) {
    uint32_t c = i;
    for (int bit = 0; bit < 8; bit++) c = (c & 1) ? (c >> 1) ^ 0x82f63b78u : c >> 1;
    table[i] = c;
  }
  return table;
}
constexpr std::array<uint32_t, 256> kCrcTable = MakeCrcTable();

}  // namespace

uint32_t Crc32c(const void* data, size_t bytes, uint32_t crc) {
  const auto* p = static_cast<const uint8_t*>(data);
  crc = ~crc;
  for (size_t i = 0; i < bytes; i++) crc = kCrcTable[(crc ^ p[i]) & 0xff] ^ (crc >> 8);
  return ~crc;
}

Sha256Digest Sha256Of(const void* data, size_t bytes) {
  return Sha256Of({std::span(static_cast<const uint8_t*>(data), bytes)});
}

Sha256Digest Sha256Of(std::initializer_list<std::span<const uint8_t>> parts) {
  SHA2_CTX sha;
  Sha256Digest digest;
  SHA256Init(&sha);
  for (const std::span<const uint8_t> part : parts) SHA256Update(&sha, part.data(), part.size());
  SHA256Final(digest.data(), &sha);
  return digest;
}

std::string Hex(const uint8_t* data, size_t bytes) {
  static const char kDigits[] = "0123456789abcdef";
  std::string out;
  out.reserve(2 * bytes);
  for (size_t i = 0; i < bytes; i++) {
    out += kDigits[data[i] >> 4];
    out += kDigits[data[i] & 15];
  }
  return out;
}

}  // namespace ppc::maio
