// SPDX-License-Identifier: Apache-2.0
// The safetensors header: what the reference writer writes, and every way a file can be wrong.
// Tensor-parallel slices: together they are the tensor, and owners of pages follow from them.
#include "tools/model/common/safetensors.h"

#include <gtest/gtest.h>

#include <string>

#include "tests/unit/has.h"
#include "tools/model/common/slice.h"

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
  const ShardHeader header = Value(Parse(kOne, 16));
  ASSERT_EQ(header.tensors.size(), 1u);
  EXPECT_EQ(header.tensors[0].name, "a");
  EXPECT_EQ(header.tensors[0].bytes(), 16u);
  EXPECT_EQ(header.data_offset, 8 + sizeof kOne - 1);
}

TEST(Safetensors, SortsByOffsetAndSkipsMetadata) {
  const ShardHeader header = Value(Parse(
      R"({"__metadata__":{"format":"pt"},"a":{"dtype":"U8","shape":[4],"data_offsets":[4,8]},)"
      R"("b":{"dtype":"U8","shape":[4],"data_offsets":[0,4]}})",
      8));
  EXPECT_EQ(header.tensors[0].name, "b");
  EXPECT_EQ(header.tensors[1].name, "a");
}

TEST(Safetensors, RefusesMalformedHeaders) {
  EXPECT_TRUE(Has(ErrorOf("[]"), "not a JSON object"));
  EXPECT_TRUE(Has(ErrorOf("{"), "not a JSON object"));
  EXPECT_TRUE(Has(ErrorOf(R"({"a":{"dtype":"F32","shape":[4]}})"), "lacks"));
  EXPECT_TRUE(Has(ErrorOf(R"({"a":7})"), "lacks"));
  EXPECT_TRUE(
      Has(ErrorOf(R"({"a":{"dtype":"F33","shape":[4],"data_offsets":[0,16]}})"), "unknown"));
  EXPECT_TRUE(Has(ErrorOf(R"({"a":{"dtype":"F32","shape":[-4],"data_offsets":[0,16]}})"), "shape"));
  EXPECT_TRUE(
      Has(ErrorOf(R"({"a":{"dtype":"F32","shape":[4],"data_offsets":[16,0]}})"), "offsets"));
  EXPECT_TRUE(
      Has(ErrorOf(R"({"a":{"dtype":"F32","shape":[5],"data_offsets":[0,16]}})"), "needs 20"));
  EXPECT_TRUE(Has(ErrorOf(R"({"a":{"dtype":"F64","shape":[4294967296,4294967296],)"
                          R"("data_offsets":[0,16]}})"),
                  "overflows"));
}

TEST(Safetensors, RefusesHolesAndOverlaps) {
  const std::string a = R"("a":{"dtype":"U8","shape":[8],"data_offsets":[0,8]})";
  EXPECT_TRUE(
      Has(ErrorOf("{" + a + R"(,"b":{"dtype":"U8","shape":[8],"data_offsets":[4,12]}})", 12),
          "inside"));
  EXPECT_TRUE(
      Has(ErrorOf("{" + a + R"(,"b":{"dtype":"U8","shape":[4],"data_offsets":[12,16]}})", 16),
          "beyond"));
}

TEST(Safetensors, RefusesFilesOfTheWrongLength) {
  EXPECT_TRUE(Has(ErrorOf(kOne, 15), "truncated"));
  EXPECT_TRUE(Has(ErrorOf(kOne, 17), "follow the last tensor"));
}

TEST(Safetensors, ChecksTheLengthField) {
  EXPECT_TRUE(Length(2, 10).ok());
  EXPECT_TRUE(Has(Length(100'000'001, 1ULL << 40).error().message, "100 MB"));
  EXPECT_TRUE(Has(Length(UINT64_MAX, 100).error().message, "100 MB"));
  EXPECT_TRUE(Has(Length(1, 100).error().message, "too small"));
  EXPECT_TRUE(Has(Length(93, 100).error().message, "truncated"));
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
  EXPECT_EQ(Value(ParseHeader(header.substr(8), header.size() + 12, "file")).tensors.size(), 3u);
  const std::string bare = EncodeHeader(tensors, /*is_padded=*/false);
  EXPECT_EQ(bare.substr(8), json);
}

Tensor Make(const std::string& name, std::vector<uint64_t> shape, uint64_t begin = 0) {
  Tensor tensor{name, "BF16", std::move(shape), begin, 0};
  tensor.end = begin + TensorBytes(tensor.dtype, tensor.shape).value();
  return tensor;
}

TEST(Slice, ColumnParallelTakesRows) {
  const Slice slice = SliceTensor(Make("m.layers.0.mlp.gate_proj.weight", {8, 4}, 100), 1, 2);
  EXPECT_EQ(slice.begin, 132u);
  EXPECT_EQ(slice.bytes(), 32u);
  EXPECT_EQ(slice.rows, 1u);
  EXPECT_FALSE(slice.is_replicated);
}

TEST(Slice, BiasAndVocabularyAreSplitOnTheFirstDimension) {
  EXPECT_EQ(SliceTensor(Make("x.self_attn.q_proj.bias", {8}), 1, 4).begin, 4u);
  EXPECT_EQ(SliceTensor(Make("model.embed_tokens.weight", {8, 2}), 3, 4).begin, 24u);
  EXPECT_EQ(SliceTensor(Make("lm_head.weight", {8, 2}), 0, 4).bytes(), 8u);
}

TEST(Slice, RowParallelTakesColumns) {
  const Slice slice = SliceTensor(Make("x.mlp.down_proj.weight", {3, 8}, 10), 1, 2);
  EXPECT_EQ(slice.begin, 18u);
  EXPECT_EQ(slice.run_bytes, 8u);
  EXPECT_EQ(slice.stride_bytes, 16u);
  EXPECT_EQ(slice.rows, 3u);
}

TEST(Slice, NormsAndIndivisibleTensorsAreReplicated) {
  EXPECT_TRUE(SliceTensor(Make("x.input_layernorm.weight", {8}), 0, 2).is_replicated);
  EXPECT_TRUE(SliceTensor(Make("x.self_attn.k_proj.weight", {3, 8}), 0, 2).is_replicated);
  EXPECT_TRUE(SliceTensor(Make("x.self_attn.o_proj.weight", {8, 3}), 0, 2).is_replicated);
}

TEST(Slice, DeepSeekFollowsItsModules) {
  for (const char* name : {"x.self_attn.q_b_proj.weight", "x.self_attn.kv_b_proj.weight_scale_inv",
                           "x.mlp.experts.7.gate_proj.weight", "x.shared_head.head.weight"})
    EXPECT_EQ(SliceTensor(Make(name, {8, 4}), 1, 2).begin, 32u) << name;
  for (const char* name : {"x.mlp.experts.7.down_proj.weight_scale_inv", "x.o_proj.weight"})
    EXPECT_EQ(SliceTensor(Make(name, {8, 4}), 1, 2).rows, 8u) << name;
  for (const char* name : {"x.self_attn.q_a_proj.weight", "x.kv_a_proj_with_mqa.weight_scale_inv",
                           "x.mlp.gate.weight", "x.eh_proj.weight"})
    EXPECT_TRUE(SliceTensor(Make(name, {8, 4}), 1, 2).is_replicated) << name;
}

TEST(Slice, UnknownNamesFollowTheStatedRule) {
  EXPECT_EQ(SliceTensor(Make("strange", {4, 6}), 1, 2).begin, 24u);
  EXPECT_TRUE(SliceTensor(Make("strange", {5, 6}), 1, 2).is_replicated);
  EXPECT_TRUE(SliceTensor(Make("strange", {4}), 1, 2).is_replicated);
  EXPECT_TRUE(SliceTensor(Make("scalar", {}), 1, 2).is_replicated);
}

TEST(Slice, OneWorkerTakesEverything) {
  const Slice slice = SliceTensor(Make("x.mlp.down_proj.weight", {3, 8}), 0, 1);
  EXPECT_EQ(slice.bytes(), 48u);
  EXPECT_EQ(slice.rows, 1u);
}

TEST(Slice, RanksCoverTheTensorOnce) {
  for (const char* name : {"q_proj.weight", "down_proj.weight"}) {
    const Tensor tensor = Make(name, {12, 16}, 4);
    std::vector<int> taken(tensor.end, 0);
    for (uint32_t rank = 0; rank < 4; ++rank) {
      const Slice slice = SliceTensor(tensor, rank, 4);
      for (uint64_t row = 0; row < slice.rows; ++row)
        for (uint64_t i = 0; i < slice.run_bytes; ++i)
          ++taken[slice.begin + row * slice.stride_bytes + i];
    }
    for (uint64_t i = 0; i < tensor.end; ++i) EXPECT_EQ(taken[i], i < 4 ? 0 : 1) << name << i;
  }
}

TEST(PageOwners, PagesOfOneRankAndSharedOnes) {
  ShardHeader header;
  header.data_offset = 16;
  header.tensors = {Make("q_proj.weight", {64, 1}, 0), Make("norm.weight", {8}, 128)};
  header.file_bytes = 16 + 144;
  // Pages of 16 bytes: header, 4 of rank 0, 4 of rank 1, the norm.
  const std::vector<uint16_t> owners = PageOwners(header, 2, 16);
  EXPECT_EQ(owners, (std::vector<uint16_t>{kSharedPage, 1, 1, 1, 1, 2, 2, 2, 2, kSharedPage}));
}

TEST(PageOwners, NarrowColumnsShareEveryPage) {
  ShardHeader header;
  header.data_offset = 16;
  header.tensors = {Make("down_proj.weight", {8, 8}, 0)};
  header.file_bytes = 16 + 128;
  for (const uint16_t owner : PageOwners(header, 2, 32)) EXPECT_EQ(owner, kSharedPage);
}

}  // namespace
}  // namespace ppc::bench
