// SPDX-License-Identifier: Apache-2.0
//
// Published test vectors.
#include "policies/maio/template/digest.h"

#include <gtest/gtest.h>

namespace ppc::maio {
namespace {

TEST(Digest, Crc32cOfTheCheckString) { EXPECT_EQ(Crc32c("123456789", 9), 0xe3069283u); }

TEST(Digest, Crc32cContinues) {
  EXPECT_EQ(Crc32c("6789", 4, Crc32c("12345", 5)), Crc32c("123456789", 9));
}

TEST(Digest, Sha256Vectors) {
  Sha256Digest d = Sha256Of("abc", 3);
  EXPECT_EQ(Hex(d.data(), d.size()),
            "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  d = Sha256Of("", 0);
  EXPECT_EQ(Hex(d.data(), d.size()),
            "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  std::string million(1000000, 'a');
  const auto* const bytes = reinterpret_cast<const uint8_t*>(million.data());
  d = Sha256Of({std::span(bytes, 997), std::span(bytes + 997, million.size() - 997)});
  EXPECT_EQ(Hex(d.data(), d.size()),
            "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}

}  // namespace
}  // namespace ppc::maio
