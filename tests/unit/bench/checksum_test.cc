// SPDX-License-Identifier: Apache-2.0
// The running checksum: equals a plain computation, depends on values and order, not on pieces.
#include "tools/model/common/checksum.h"

#include <gtest/gtest.h>

#include <vector>

namespace ppc::bench {
namespace {

std::vector<uint8_t> Data(uint64_t bytes) {
  std::vector<uint8_t> data(bytes);
  FillContent(FileKey(7, 3), 0, data.data(), bytes);
  return data;
}

uint64_t Plain(const std::vector<uint8_t>& data) {
  uint64_t a[2] = {1, 1}, b[2] = {0, 0};
  for (uint64_t i = 0; i < data.size(); i += 16) {
    uint8_t block[16] = {};
    for (uint64_t k = 0; k < 16 && i + k < data.size(); ++k) block[k] = data[i + k];
    for (int lane = 0; lane < 2; ++lane) {
      uint64_t word = 0;
      for (int k = 7; k >= 0; --k) word = word << 8 | block[8 * lane + k];
      a[lane] += word;
      b[lane] += a[lane];
    }
  }
  uint64_t value = 0x70706331;
  for (const uint64_t part : {a[0], a[1], b[0], b[1]}) value = MixWord(value ^ part);
  return value;
}

uint64_t Fold(const std::vector<uint8_t>& data, uint64_t piece) {
  Checksum checksum;
  std::vector<uint8_t> copy(data.size() + 1);
  for (uint64_t at = 0; at < data.size(); at += piece)
    checksum.CopyFold(copy.data() + 1 + at, data.data() + at, std::min(piece, data.size() - at));
  EXPECT_TRUE(std::equal(data.begin(), data.end(), copy.begin() + 1));
  return checksum.Value();
}

TEST(Checksum, EqualsThePlainComputation) {
  for (const uint64_t bytes : {0u, 1u, 15u, 16u, 17u, 64u, 100u, 4096u, 10007u})
    EXPECT_EQ(Fold(Data(bytes), 1 << 20), Plain(Data(bytes))) << bytes;
}

TEST(Checksum, DoesNotDependOnPieces) {
  const std::vector<uint8_t> data = Data(10007);
  EXPECT_EQ(Fold(data, 16), Fold(data, 1 << 20));
  EXPECT_EQ(Fold(data, 4096), Fold(data, 112));
}

TEST(Checksum, SeesChangedSwappedAndMissingBytes) {
  const std::vector<uint8_t> data = Data(8192);
  const uint64_t right = Fold(data, 8192);
  for (const uint64_t at : {0u, 63u, 4096u, 8191u}) {
    std::vector<uint8_t> changed = data;
    changed[at] ^= 0x80;
    EXPECT_NE(Fold(changed, 8192), right) << at;
  }
  std::vector<uint8_t> swapped = data;
  std::swap_ranges(swapped.begin(), swapped.begin() + 4096, swapped.begin() + 4096);
  EXPECT_NE(Fold(swapped, 8192), right);
  std::vector<uint8_t> zeroed = data;
  std::fill(zeroed.begin() + 4096, zeroed.end(), 0);
  EXPECT_NE(Fold(zeroed, 8192), right);
}

TEST(Content, FollowsFromPositionAlone) {
  std::vector<uint8_t> whole(1000), part(100);
  FillContent(FileKey(1, 2), 0, whole.data(), whole.size());
  FillContent(FileKey(1, 2), 50, part.data(), part.size());
  EXPECT_TRUE(std::equal(part.begin(), part.end(), whole.begin() + 400));
  FillContent(FileKey(2, 2), 50, part.data(), part.size());
  EXPECT_FALSE(std::equal(part.begin(), part.end(), whole.begin() + 400));
}

}  // namespace
}  // namespace ppc::bench
