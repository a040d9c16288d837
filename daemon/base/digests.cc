// SPDX-License-Identifier: Apache-2.0
#include "daemon/base/digests.h"

#include <sha2.h>

#include <algorithm>

namespace ppc {
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

std::span<const uint8_t> BytesOf(std::string_view text) {
  return {reinterpret_cast<const uint8_t*>(text.data()), text.size()};
}

}  // namespace

struct Sha256::State {
  SHA2_CTX context;
};

Sha256::Sha256() : state_(std::make_unique<State>()) { SHA256Init(&state_->context); }

Sha256::~Sha256() = default;

void Sha256::Update(std::string_view data) { Update(BytesOf(data)); }

void Sha256::Update(std::span<const uint8_t> data) {
  SHA256Update(&state_->context, data.data(), data.size());
}

Sha256Digest Sha256::Finish() {
  static_assert(std::tuple_size_v<Sha256Digest> == SHA256_DIGEST_LENGTH);
  Sha256Digest digest = {};
  SHA256Final(digest.data(), &state_->context);
  return digest;
}

std::string Sha256::Hex() {
  const Sha256Digest digest = Finish();
  return ppc::Hex(digest.data(), digest.size());
}

Sha256Digest Sha256Of(const void* data, size_t bytes) {
  return Sha256Of({std::span(static_cast<const uint8_t*>(data), bytes)});
}

Sha256Digest Sha256Of(std::initializer_list<std::span<const uint8_t>> parts) {
  Sha256 sha;
  for (const std::span<const uint8_t> part : parts) sha.Update(part);
  return sha.Finish();
}

std::string Sha256Hex(std::string_view data) {
  Sha256 sha;
  sha.Update(data);
  return sha.Hex();
}

Sha256Digest HmacSha256(std::string_view secret,
                        std::initializer_list<std::span<const uint8_t>> parts) {
  std::array<uint8_t, SHA256_BLOCK_LENGTH> block = {};
  if (secret.size() > block.size()) {
    const Sha256Digest digest = Sha256Of({BytesOf(secret)});
    std::copy(digest.begin(), digest.end(), block.begin());
  } else {
    std::copy(secret.begin(), secret.end(), block.begin());
  }
  const auto begin = [&block](Sha256& sha, uint8_t pad) {
    std::array<uint8_t, SHA256_BLOCK_LENGTH> padded = block;
    for (uint8_t& byte : padded) byte ^= pad;
    sha.Update(padded);
  };
  Sha256 inner;
  begin(inner, 0x36);
  for (const std::span<const uint8_t> part : parts) inner.Update(part);
  Sha256 outer;
  begin(outer, 0x5c);
  outer.Update(inner.Finish());
  return outer.Finish();
}

std::string HmacSha256Hex(std::string_view secret, std::string_view data) {
  const Sha256Digest digest = HmacSha256(secret, {BytesOf(data)});
  return Hex(digest.data(), digest.size());
}

uint32_t Crc32c(const void* data, size_t bytes, uint32_t crc) {
  const auto* p = static_cast<const uint8_t*>(data);
  crc = ~crc;
  for (size_t i = 0; i < bytes; i++) crc = kCrcTable[(crc ^ p[i]) & 0xff] ^ (crc >> 8);
  return ~crc;
}

std::string Hex(const uint8_t* data, size_t bytes) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string out;
  out.reserve(2 * bytes);
  for (size_t i = 0; i < bytes; i++) {
    out += kDigits[data[i] >> 4];
    out += kDigits[data[i] & 15];
  }
  return out;
}

}  // namespace ppc
