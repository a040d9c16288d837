// SPDX-License-Identifier: Apache-2.0
// The safetensors header: what the reference writer writes, and every way a file can be wrong.
#include "tools/model/common/safetensors.h"

#include <gtest/gtest.h>

#include <string>

namespace ppc::bench {
namespace {

constexpr char kOne[] = R"({"a":{"dtype":"F32","shape":[2,2],"data_offsets":[0,16]}})";

Result<ShardHeader> Parse(const std::string& json, uint64_t data_bytes) {
  return ParseHeader(json, 8 + json.size() + data_bytes, "file");
}

std::string ErrorOf(const std::string& json, uint64_t data_bytes = 16) {
  const Result<ShardHeader> header = Parse(json, data_bytes);
  return header.ok() ? "" : header.error().message;
}

Result<uint64_t> Length(uint64_t value, uint64_t file_bytes) {
  uint8_t first8[8];
  for (int i = 0; i < 8; ++i) first8[i] = static_cast<uint8_t>(value >> (8 * i));
  return ParseHeaderLength(first8, file_bytes, "file");
}

TEST(Safetensors, ParsesOneTensor) {
  const Result<ShardHeader> header = Parse(kOne, 16);
  ASSERT_TRUE(header.ok()) << header.error().message;
  ASSERT_EQ(header->tensors.size(), 1u);
  EXPECT_EQ(header->tensors[0].name, "a");
  EXPECT_EQ(header->tensors[0].bytes(), 16u);
  EXPECT_EQ(header->data_offset, 8 + sizeof kOne - 1);
}

TEST(Safetensors, SortsByOffsetAndSkipsMetadata) {
  const Result<ShardHeader> header = Parse(
      R"({"__metadata__":{"format":"pt"},"a":{"dtype":"U8","shape":[4],"data_offsets":[4,8]},)"
      R"("b":{"dtype":"U8","shape":[4],"data_offsets":[0,4]}})",
      8);
  ASSERT_TRUE(header.ok()) << header.error().message;
  EXPECT_EQ(header->tensors[0].name, "b");
  EXPECT_EQ(header->tensors[1].name, "a");
}

TEST(Safetensors, RefusesMalformedHeaders) {
  EXPECT_NE(ErrorOf("[]").find("not a JSON object"), std::string::npos);
  EXPECT_NE(ErrorOf("{").find("not a JSON object"), std::string::npos);
  EXPECT_NE(ErrorOf(R"({"a":{"dtype":"F32","shape":[4]}})").find("lacks"), std::string::npos);
  EXPECT_NE(ErrorOf(R"({"a":7})").find("lacks"), std::string::npos);
  EXPECT_NE(ErrorOf(R"({"a":{"dtype":"F33","shape":[4],"data_offsets":[0,16]}})").find("unknown"),
            std::string::npos);
  EXPECT_NE(ErrorOf(R"({"a":{"dtype":"F32","shape":[-4],"data_offsets":[0,16]}})").find("shape"),
            std::string::npos);
  EXPECT_NE(ErrorOf(R"({"a":{"dtype":"F32","shape":[4],"data_offsets":[16,0]}})").find("offsets"),
            std::string::npos);
  EXPECT_NE(ErrorOf(R"({"a":{"dtype":"F32","shape":[5],"data_offsets":[0,16]}})").find("needs 20"),
            std::string::npos);
  EXPECT_NE(ErrorOf(R"({"a":{"dtype":"F64","shape":[4294967296,4294967296],)"
                    R"("data_offsets":[0,16]}})")
                .find("overflows"),
            std::string::npos);
}

TEST(Safetensors, RefusesHolesAndOverlaps) {
  const std::string a = R"("a":{"dtype":"U8","shape":[8],"data_offsets":[0,8]})";
  EXPECT_NE(ErrorOf("{" + a + R"(,"b":{"dtype":"U8","shape":[8],"data_offsets":[4,12]}})", 12)
                .find("inside"),
            std::string::npos);
  EXPECT_NE(ErrorOf("{" + a + R"(,"b":{"dtype":"U8","shape":[4],"data_offsets":[12,16]}})", 16)
                .find("beyond"),
            std::string::npos);
}

TEST(Safetensors, RefusesFilesOfTheWrongLength) {
  EXPECT_NE(ErrorOf(kOne, 15).find("truncated"), std::string::npos);
  EXPECT_NE(ErrorOf(kOne, 17).find("follow the last tensor"), std::string::npos);
}

TEST(Safetensors, ChecksTheLengthField) {
  EXPECT_TRUE(Length(2, 10).ok());
  EXPECT_NE(Length(100'000'001, 1ULL << 40).error().message.find("100 MB"), std::string::npos);
  EXPECT_NE(Length(UINT64_MAX, 100).error().message.find("100 MB"), std::string::npos);
  EXPECT_NE(Length(1, 100).error().message.find("too small"), std::string::npos);
  EXPECT_NE(Length(93, 100).error().message.find("truncated"), std::string::npos);
}

TEST(Safetensors, WritesWhatTheReferenceWriterWrites) {
  std::vector<Tensor> tensors(3);
  tensors[0] = {"model.layers.9.w", "BF16", {2}};
  tensors[1] = {"model.layers.10.w", "BF16", {2, 1}};
  tensors[2] = {"z", "F32", {}};
  SortTensors(&tensors);
  AssignOffsets(&tensors);
  const std::string header = EncodeHeader(tensors);
  const std::string json =
      R"({"__metadata__":{"format":"pt"},)"
      R"("z":{"dtype":"F32","shape":[],"data_offsets":[0,4]},)"
      R"("model.layers.10.w":{"dtype":"BF16","shape":[2,1],"data_offsets":[4,8]},)"
      R"("model.layers.9.w":{"dtype":"BF16","shape":[2],"data_offsets":[8,12]}})";
  ASSERT_EQ(header.size() % 8, 0u);
  EXPECT_EQ(header.substr(8, json.size()), json);
  EXPECT_EQ(header.find_last_not_of(' '), 8 + json.size() - 1);
  EXPECT_EQ(static_cast<uint8_t>(header[0]) + 256u * static_cast<uint8_t>(header[1]),
            header.size() - 8);
  const Result<ShardHeader> parsed = ParseHeader(header.substr(8), header.size() + 12, "file");
  ASSERT_TRUE(parsed.ok()) << parsed.error().message;
  EXPECT_EQ(parsed->tensors.size(), 3u);
  const std::string bare = EncodeHeader(tensors, /*is_padded=*/false);
  EXPECT_EQ(bare.substr(8), json);
}

}  // namespace
}  // namespace ppc::bench
