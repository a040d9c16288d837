// SPDX-License-Identifier: Apache-2.0
#include "daemon/wire/sha256.h"

#include <sha2.h>

#include <array>

namespace ppc::control {

std::string Sha256Hex(std::string_view data) {
  std::array<char, SHA256_DIGEST_STRING_LENGTH> hex{};
  SHA256Data(reinterpret_cast<const uint8_t*>(data.data()), data.size(), hex.data());
  return hex.data();
}

}  // namespace ppc::control
