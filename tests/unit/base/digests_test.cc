// SPDX-License-Identifier: Apache-2.0
//
// Published test vectors: what is on disks and in stores is named and sealed by these.
#include "daemon/base/digests.h"

#include <gtest/gtest.h>

#include <string>

namespace ppc {
namespace {

std::span<const uint8_t> Bytes(const std::string& text) {
  return {reinterpret_cast<const uint8_t*>(text.data()), text.size()};
}

TEST(Crc32c, IsThatOfTheCheckString) { EXPECT_EQ(Crc32c("123456789", 9), 0xe3069283u); }

TEST(Crc32c, GoesOn) { EXPECT_EQ(Crc32c("6789", 4, Crc32c("12345", 5)), Crc32c("123456789", 9)); }

TEST(Sha256, MatchesThePublishedVectors) {
  EXPECT_EQ(Sha256Hex(""), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  EXPECT_EQ(Sha256Hex("abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_EQ(Sha256Hex("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq"),
            "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
  EXPECT_EQ(Sha256Hex(std::string(1000000, 'a')),
            "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}

TEST(Sha256, PadsEveryLengthAroundABlock) {
  EXPECT_EQ(Sha256Hex(std::string(55, 'x')).substr(0, 8), "d5e28568");
  EXPECT_EQ(Sha256Hex(std::string(56, 'x')).substr(0, 8), "04c26261");
  EXPECT_EQ(Sha256Hex(std::string(64, 'x')).substr(0, 8), "7ce10097");
}

TEST(Sha256, InPiecesIsThatOfTheWhole) {
  Sha256 pieces;
  pieces.Update("ab");
  pieces.Update("");
  pieces.Update("c");
  EXPECT_EQ(pieces.Hex(), Sha256Hex("abc"));
  const std::string million(1000000, 'a');
  const Sha256Digest d = Sha256Of({Bytes(million).first(997), Bytes(million).subspan(997)});
  EXPECT_EQ(Hex(d.data(), d.size()), Sha256Hex(million));
  EXPECT_EQ(Sha256Of(million.data(), million.size()), d);
}

// RFC 4231, test cases 1, 2 and 6.
TEST(Hmac, IsThatOfTheStandard) {
  EXPECT_EQ(HmacSha256Hex(std::string(20, '\x0b'), "Hi There"),
            "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7");
  EXPECT_EQ(HmacSha256Hex("Jefe", "what do ya want for nothing?"),
            "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843");
  EXPECT_EQ(HmacSha256Hex(std::string(131, '\xaa'),
                          "Test Using Larger Than Block-Size Key - Hash Key First"),
            "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54");
}

TEST(Hmac, InPartsIsThatOfTheWhole) {
  const std::string secret = "Jefe", first = "what do ya ", rest = "want for nothing?";
  const Sha256Digest d = HmacSha256(secret, {Bytes(first), Bytes(rest)});
  EXPECT_EQ(Hex(d.data(), d.size()), HmacSha256Hex(secret, first + rest));
}

}  // namespace
}  // namespace ppc
