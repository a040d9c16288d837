// SPDX-License-Identifier: Apache-2.0
//
// Checksums of templates: CRC-32C per section, SHA-256 over the whole file and
// for file fingerprints.  Pure functions.
#ifndef POLICIES_MAIO_TEMPLATE_DIGEST_H_
#define POLICIES_MAIO_TEMPLATE_DIGEST_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>

namespace ppc::maio {

using Sha256Digest = std::array<uint8_t, 32>;
using Fingerprint = std::array<uint8_t, 16>;

uint32_t Crc32c(const void* data, size_t bytes, uint32_t crc = 0);

Sha256Digest Sha256Of(const void* data, size_t bytes);
// Of the parts, one after the other.
Sha256Digest Sha256Of(std::initializer_list<std::span<const uint8_t>> parts);
std::string Hex(const uint8_t* data, size_t bytes);

}  // namespace ppc::maio

#endif  // POLICIES_MAIO_TEMPLATE_DIGEST_H_
