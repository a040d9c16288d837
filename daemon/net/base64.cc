// SPDX-License-Identifier: Apache-2.0
#include "daemon/net/base64.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>

namespace ppc {

std::string Base64(std::string_view text) {
  static constexpr char kDigits[] =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string out;
  out.reserve((text.size() + 2) / 3 * 4);
  for (size_t i = 0; i < text.size(); i += 3) {
    const size_t n = std::min<size_t>(3, text.size() - i);
    uint32_t bits = 0;
    for (size_t k = 0; k < 3; k++)
      bits = bits << 8 | (k < n ? static_cast<uint8_t>(text[i + k]) : 0u);
    for (size_t k = 0; k < 4; k++) out += k <= n ? kDigits[bits >> (18 - 6 * k) & 63] : '=';
  }
  return out;
}

std::optional<std::string> FromBase64(std::string_view text) {
  if (text.size() % 4 != 0) return std::nullopt;
  std::string out;
  out.reserve(text.size() / 4 * 3);
  for (size_t i = 0; i < text.size(); i += 4) {
    uint32_t bits = 0;
    size_t n = 0;
    for (size_t k = 0; k < 4; k++) {
      const char c = text[i + k];
      uint32_t digit = 0;
      if (c >= 'A' && c <= 'Z') {
        digit = static_cast<uint32_t>(c - 'A');
      } else if (c >= 'a' && c <= 'z') {
        digit = static_cast<uint32_t>(c - 'a' + 26);
      } else if (c >= '0' && c <= '9') {
        digit = static_cast<uint32_t>(c - '0' + 52);
      } else if (c == '+' || c == '/') {
        digit = c == '+' ? 62 : 63;
      } else if (c != '=' || i + 4 != text.size() || k < 2) {
        return std::nullopt;
      }
      if (c != '=' && n != k) return std::nullopt;  // behind the padding
      if (c != '=') n++;
      bits = bits << 6 | digit;
    }
    for (size_t k = 0; k + 1 < n; k++) out += static_cast<char>(bits >> (16 - 8 * k) & 255);
  }
  return out;
}

}  // namespace ppc
