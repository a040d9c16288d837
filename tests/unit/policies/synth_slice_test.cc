// SPDX-License-Identifier: Apache-2.0
//
// Slices by name.
#include "policies/maio/synth/synth_slice.h"

#include <gtest/gtest.h>

namespace ppc::maio {
namespace {

SynthTensor Make(const std::string& name, std::vector<uint64_t> shape) {
  uint64_t elements = 1;
  for (uint64_t dim : shape) elements *= dim;
  return {name, std::move(shape), 1000, 1000 + 2 * elements};
}

TEST(SynthSlice, OutputsAreRowsAndInputsAreColumns) {
  for (const char* name :
       {"model.layers.1.mlp.gate_proj.weight", "m.self_attn.q_proj.bias", "lm_head.weight",
        "blk.3.ffn_up.weight", "output.weight", "m.experts.3.w1.weight", "something.new.weight"}) {
    auto ranges = SliceOf(Make(name, {8, 4}), 1, 2, {});
    ASSERT_EQ(ranges.size(), 1u) << name;
    EXPECT_EQ(ranges[0].begin, 1032u) << name;
    EXPECT_EQ(ranges[0].end(), 1064u) << name;
  }
  for (const char* name : {"m.mlp.down_proj.weight", "x.attention.dense.weight", "l.fc2.weight",
                           "m.experts.9.down_proj.weight_scale_inv", "blk.0.attn_output.weight"}) {
    auto ranges = SliceOf(Make(name, {8, 4}), 1, 2, {});
    ASSERT_EQ(ranges.size(), 1u) << name;
    EXPECT_EQ(ranges[0].rows, 8u) << name;
    EXPECT_EQ(ranges[0].begin, 1004u) << name;
    EXPECT_EQ(ranges[0].run, 4u) << name;
    EXPECT_EQ(ranges[0].stride, 8u) << name;
  }
}

TEST(SynthSlice, WhatIsNotSplitIsReadByAll) {
  for (const char* name :
       {"m.input_layernorm.weight", "m.mlp.gate.weight", "m.self_attn.q_a_proj.weight",
        "m.self_attn.kv_a_proj_with_mqa.weight_scale_inv", "m.self_attn.o_proj.bias"}) {
    bool is_bias = std::string(name).ends_with("bias");
    SynthTensor tensor = is_bias ? Make(name, {8}) : Make(name, {8, 4});
    auto ranges = SliceOf(tensor, 1, 2, {});
    ASSERT_EQ(ranges.size(), 1u) << name;
    EXPECT_EQ(ranges[0].begin, tensor.begin) << name;
    EXPECT_EQ(ranges[0].end(), tensor.end) << name;
  }
  // What does not divide, and what has no bytes.
  EXPECT_EQ(SliceOf(Make("m.q_proj.weight", {3, 4}), 1, 2, {})[0].run, 24u);
  EXPECT_TRUE(SliceOf(Make("m.q_proj.weight", {0, 4}), 1, 2, {}).empty());
  EXPECT_EQ(SliceOf(Make("scalar", {}), 1, 2, {})[0].run, 2u);
}

TEST(SynthSlice, FewKeyValueHeadsAreShared) {
  ModelShape shape{16, 2};
  EXPECT_EQ(SliceOf(Make("m.k_proj.weight", {8, 4}), 1, 4, shape)[0].begin, 1000u);
  EXPECT_EQ(SliceOf(Make("m.k_proj.weight", {8, 4}), 2, 4, shape)[0].begin, 1032u);
  EXPECT_EQ(SliceOf(Make("m.k_proj.weight", {8, 4}), 3, 4, shape)[0].run, 32u);
}

TEST(SynthSlice, FusedProjectionsAreSplitPartByPart) {
  auto both = SliceOf(Make("m.gate_up_proj.weight", {8, 4}), 1, 2, {});
  ASSERT_EQ(both.size(), 2u);
  EXPECT_EQ(both[0].begin, 1016u);
  EXPECT_EQ(both[1].begin, 1048u);
  auto fused = SliceOf(Make("m.qkv_proj.weight", {16, 4}), 1, 2, {4, 2});
  ASSERT_EQ(fused.size(), 3u);
  EXPECT_EQ(fused[0].begin, 1000u + 4 * 8);
  EXPECT_EQ(fused[0].run, 4 * 8u);
  EXPECT_EQ(fused[2].begin, 1000u + 14 * 8);
}

TEST(SynthSlice, QuantisedWeightsAreStoredTheOtherWayRound) {
  EXPECT_EQ(SliceOf(Make("m.q_proj.qweight", {8, 4}), 1, 2, {})[0].rows, 8u);
  EXPECT_EQ(SliceOf(Make("m.down_proj.qweight", {8, 4}), 1, 2, {})[0].begin, 1032u);
}

}  // namespace
}  // namespace ppc::maio
