// SPDX-License-Identifier: Apache-2.0
#include "daemon/wire/sha256.h"

#include <sha2.h>

#include <algorithm>
#include <array>

namespace ppc::control {
namespace {

using Digest = std::array<uint8_t, SHA256_DIGEST_LENGTH>;

const uint8_t* Bytes(std::string_view data) {
  return reinterpret_cast<const uint8_t*>(data.data());
}

Digest DigestOf(std::string_view first, std::string_view second) {
  SHA2_CTX context;
  Digest digest{};
  SHA256Init(&context);
  SHA256Update(&context, Bytes(first), first.size());
  SHA256Update(&context, Bytes(second), second.size());
  SHA256Final(digest.data(), &context);
  return digest;
}

std::string_view TextOf(const Digest& digest) {
  return {reinterpret_cast<const char*>(digest.data()), digest.size()};
}

std::string HexOf(const Digest& digest) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string hex;
  for (const uint8_t byte : digest) {
    hex += kDigits[byte >> 4];
    hex += kDigits[byte & 15];
  }
  return hex;
}

}  // namespace

struct Sha256::State {
  SHA2_CTX context;
};

Sha256::Sha256() : state_(std::make_unique<State>()) { SHA256Init(&state_->context); }

Sha256::~Sha256() = default;

void Sha256::Update(std::string_view data) {
  SHA256Update(&state_->context, Bytes(data), data.size());
}

std::string Sha256::Hex() {
  Digest digest{};
  SHA256Final(digest.data(), &state_->context);
  return HexOf(digest);
}

std::string Sha256Hex(std::string_view data) { return HexOf(DigestOf(data, "")); }

std::string HmacSha256Hex(std::string_view secret, std::string_view data) {
  std::string block(secret);
  if (block.size() > SHA256_BLOCK_LENGTH) block = TextOf(DigestOf(secret, ""));
  block.resize(SHA256_BLOCK_LENGTH, '\0');
  const auto padded = [&block](char pad) {
    std::string text = block;
    std::transform(text.begin(), text.end(), text.begin(),
                   [pad](char c) { return static_cast<char>(c ^ pad); });
    return text;
  };
  const Digest inner = DigestOf(padded(0x36), data);
  return HexOf(DigestOf(padded(0x5c), TextOf(inner)));
}

}  // namespace ppc::control
