// SPDX-License-Identifier: Apache-2.0
// Tensor-parallel slices: together they are the tensor, and owners of pages follow from them.
#include "tools/model/common/slice.h"

#include <gtest/gtest.h>

namespace ppc::bench {
namespace {

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
