// SPDX-License-Identifier: Apache-2.0
#include "policies/maio/experts.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <set>

#include "tests/unit/policies/synth_source_memory.h"
#include "tests/unit/units.h"

namespace ppc::maio {
namespace {

struct Named {
  std::string name;
  std::vector<uint64_t> shape;
  uint64_t bytes = 0;
};

// In the order given.
std::vector<Experts::Piece> PiecesOf(const std::vector<Named>& tensors) {
  nlohmann::json json;
  uint64_t at = 0;
  for (const Named& tensor : tensors) {
    json[tensor.name] = {
        {"dtype", "U8"}, {"shape", tensor.shape}, {"data_offsets", {at, at + tensor.bytes}}};
    at += tensor.bytes;
  }
  MemorySource source;
  source.Add("m.safetensors", SafetensorsHead(json.dump()), at);
  const Experts::File file{"m.safetensors", 7};
  return Experts::Find(&source, {&file, 1});
}

TEST(Experts, ATensorOfAllExpertsIsCutIntoTheirs) {
  const auto pieces = PiecesOf({{"blk.3.ffn_up_exps.weight", {4, 1, kMiB}, 4 * kMiB},
                                {"blk.3.ffn_down_exps.weight", {4, 1, kMiB}, 4 * kMiB}});
  ASSERT_EQ(pieces.size(), 8u);
  for (size_t i = 0; i < 8; i++) {
    EXPECT_EQ(pieces[i].file, 7u);
    EXPECT_EQ(pieces[i].bytes, kMiB);
    EXPECT_EQ(pieces[i].offset, pieces[0].offset + i * kMiB);
    EXPECT_EQ(pieces[i].expert, pieces[i % 4].expert) << "both tensors have a part of each";
  }
  EXPECT_NE(pieces[0].expert, pieces[1].expert);
}

TEST(Experts, TensorsOfOneExpertBelongTogether) {
  const auto pieces =
      PiecesOf({{"model.layers.0.mlp.experts.1.up_proj.weight", {kMiB}, kMiB},
                {"model.layers.0.mlp.experts.1.down_proj.weight", {kMiB}, kMiB},
                {"model.layers.0.mlp.experts.10.up_proj.weight", {kMiB}, kMiB},
                {"model.layers.1.mlp.experts.1.up_proj.weight", {kMiB}, kMiB},
                {"model.layers.2.mlp.experts.gate_up_proj", {2, 1, kMiB}, 2 * kMiB}});
  std::multiset<std::string> experts;
  for (const Experts::Piece& piece : pieces) experts.insert(piece.expert);
  EXPECT_EQ(experts.size(), 6u);
  EXPECT_EQ(experts.count("model.layers.0.mlp.experts.1"), 2u);
  EXPECT_EQ(std::set(experts.begin(), experts.end()).size(), 5u);
}

// Else each token would load what it needs anyway, or what the kernel's own window covers.
TEST(Experts, OthersAndSmallOnesAreNone) {
  EXPECT_TRUE(PiecesOf({{"blk.0.attn_q.weight", {4, 1, kMiB}, 4 * kMiB},
                        {"blk.0.ffn_up.weight", {4, 1, kMiB}, 4 * kMiB},
                        {"model.layers.0.mlp.gate.weight", {kMiB}, kMiB},
                        {"model.layers.0.mlp.shared_experts.up_proj.weight", {kMiB}, kMiB},
                        {"blk.1.ffn_up_exps.weight", {64, 1, 4096}, 64 * 4096}})
                  .empty());
  MemorySource source;
  source.Add("m.gguf", "GGUF");
  const Experts::File files[] = {{"m.gguf", 1}, {"absent.safetensors", 2}};
  EXPECT_TRUE(Experts::Find(&source, files).empty());
}

// A layer of two tensors of four experts behind 4 MiB of others.
struct Layer {
  static constexpr uint64_t kFirst = 4 * kMiB;

  Layer() : experts(&run, Pieces()) {}
  static std::vector<Experts::Piece> Pieces() {
    std::vector<Experts::Piece> pieces;
    for (uint64_t i = 0; i < 8; i++)
      pieces.push_back({1, kFirst + i * kMiB, kMiB, std::to_string(i % 4)});
    return pieces;
  }
  static ppc_context Clock() {
    ppc_context context = {};
    context.now_ns = [](const ppc_context*) { return uint64_t{1}; };
    return context;
  }
  // Pieces that a miss of so much asks for, in their order.
  std::vector<uint64_t> Miss(uint64_t offset, uint64_t bytes = 4096) {
    miss_io miss = {};
    miss.file = 1;
    miss.offset = offset;
    miss.size = bytes;
    IoList list;
    experts.Prefetch(miss, &list);
    std::vector<uint64_t> pieces;
    for (const ppc_io& io : list.ios()) pieces.push_back((io.offset - kFirst) / kMiB);
    return pieces;
  }

  ppc_context context = Clock();
  ServiceRun run{&context, Config(), ServiceSpec(), 0};
  Experts experts;
};

using Asked = std::vector<uint64_t>;

TEST(Experts, AMissAsksForAllPartsOfTheExpert) {
  Layer layer;
  EXPECT_EQ(layer.Miss(Layer::kFirst + 2 * kMiB + 4096), (Asked{2, 6}));
  EXPECT_EQ(layer.Miss(Layer::kFirst + 6 * kMiB), Asked()) << "on its way";
}

// The kernel's window begins 64 KiB before the page that was needed.
TEST(Experts, AWindowThatBeginsBeforeAnExpertIsItsMiss) {
  Layer layer;
  EXPECT_EQ(layer.Miss(Layer::kFirst + 2 * kMiB - (64 << 10)), (Asked{2, 6}));
  EXPECT_EQ(Layer().Miss(Layer::kFirst - (64 << 10)), (Asked{0, 4})) << "behind another tensor";
  EXPECT_EQ(Layer().Miss(Layer::kFirst - (96 << 10)), Asked());
  EXPECT_EQ(layer.Miss(Layer::kFirst + 3 * kMiB - (64 << 10)), Asked())
      << "the end of what is read";
}

TEST(Experts, TheEndOfWhatIsReadOnIsNoExpertsMiss) {
  Layer layer;
  EXPECT_EQ(layer.Miss(Layer::kFirst - kMiB, kMiB - (64 << 10)), Asked());
  EXPECT_EQ(layer.Miss(Layer::kFirst - (64 << 10)), Asked());
}

}  // namespace
}  // namespace ppc::maio
