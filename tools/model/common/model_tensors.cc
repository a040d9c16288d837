// SPDX-License-Identifier: Apache-2.0
// The models' dimensions and the tensors of their state dicts.
// Threads: free functions without state.
#include <utility>

#include "tools/model/common/model_layout.h"

namespace ppc::bench {
namespace {

constexpr uint64_t kScaleBlock = 128;  // one scale per so many rows and columns of FP8 weights

ModelSpec Qwen(const char* name, const char* repo, uint64_t layers, uint64_t heads,
               uint64_t kv_heads, uint64_t ffn) {
  return {.name = name,
          .repo = repo,
          .family = Family::kQwen2,
          .layers = layers,
          .heads = heads,
          .kv_heads = kv_heads,
          .head_dim = 128,
          .hidden = heads * 128,
          .ffn = ffn,
          .vocab = 152064,
          .tokenizer_bytes = 7'031'645};
}

ModelSpec Llama(const char* name, const char* repo, uint64_t layers, uint64_t heads,
                uint64_t kv_heads, uint64_t ffn, bool has_rotary) {
  return {.name = name,
          .repo = repo,
          .family = Family::kLlama,
          .layers = layers,
          .heads = heads,
          .kv_heads = kv_heads,
          .head_dim = 128,
          .hidden = heads * 128,
          .ffn = ffn,
          .vocab = 32000,
          .tokenizer_bytes = 1'842'767,
          .has_rotary = has_rotary};
}

Tensor Make(std::string name, const char* dtype, std::vector<uint64_t> shape) {
  Tensor tensor;
  tensor.name = std::move(name);
  tensor.dtype = dtype;
  tensor.shape = std::move(shape);
  return tensor;
}

// Appends tensors below one prefix.
class Block {
 public:
  Block(std::vector<Tensor>* out, std::string prefix, const char* dtype)
      : out_(out), prefix_(std::move(prefix)), dtype_(dtype) {}

  void Add(const std::string& name, std::vector<uint64_t> shape) {
    out_->push_back(Make(prefix_ + name, dtype_, std::move(shape)));
  }
  void AddF32(const std::string& name, std::vector<uint64_t> shape) {
    out_->push_back(Make(prefix_ + name, "F32", std::move(shape)));
  }
  // FP8 in blocks, with the scales that belong to it.
  void AddFp8(const std::string& name, uint64_t rows, uint64_t columns) {
    out_->push_back(Make(prefix_ + name + ".weight", "F8_E4M3", {rows, columns}));
    AddF32(name + ".weight_scale_inv",
           {(rows + kScaleBlock - 1) / kScaleBlock, (columns + kScaleBlock - 1) / kScaleBlock});
  }
  Block Below(const std::string& name) const { return {out_, prefix_ + name, dtype_}; }

 private:
  std::vector<Tensor>* out_;
  std::string prefix_;
  const char* dtype_;
};

void AddQwenLayer(const ModelSpec& model, Block layer) {
  const auto projection = [&](const std::string& name, uint64_t rows) {
    layer.Add("self_attn." + name + ".weight", {rows, model.hidden});
    layer.Add("self_attn." + name + ".bias", {rows});
  };
  layer.Add("input_layernorm.weight", {model.hidden});
  projection("q_proj", model.hidden);
  projection("k_proj", model.kv());
  projection("v_proj", model.kv());
  layer.Add("self_attn.o_proj.weight", {model.hidden, model.hidden});
  layer.Add("post_attention_layernorm.weight", {model.hidden});
  layer.Add("mlp.up_proj.weight", {model.ffn, model.hidden});
  layer.Add("mlp.gate_proj.weight", {model.ffn, model.hidden});
  layer.Add("mlp.down_proj.weight", {model.hidden, model.ffn});
}

void AddLlamaLayer(const ModelSpec& model, Block layer) {
  layer.Add("self_attn.q_proj.weight", {model.hidden, model.hidden});
  layer.Add("self_attn.k_proj.weight", {model.kv(), model.hidden});
  layer.Add("self_attn.v_proj.weight", {model.kv(), model.hidden});
  layer.Add("self_attn.o_proj.weight", {model.hidden, model.hidden});
  if (model.has_rotary) layer.AddF32("self_attn.rotary_emb.inv_freq", {model.head_dim / 2});
  layer.Add("mlp.gate_proj.weight", {model.ffn, model.hidden});
  layer.Add("mlp.up_proj.weight", {model.ffn, model.hidden});
  layer.Add("mlp.down_proj.weight", {model.hidden, model.ffn});
  layer.Add("input_layernorm.weight", {model.hidden});
  layer.Add("post_attention_layernorm.weight", {model.hidden});
}

void AddMlp(const ModelSpec& model, uint64_t ffn, Block mlp) {
  mlp.AddFp8("gate_proj", ffn, model.hidden);
  mlp.AddFp8("up_proj", ffn, model.hidden);
  mlp.AddFp8("down_proj", model.hidden, ffn);
}

void AddDeepSeekLayer(const ModelSpec& model, bool is_dense, Block layer) {
  const DeepSeekDims& dims = model.deepseek;
  Block attention = layer.Below("self_attn.");
  attention.AddFp8("q_a_proj", dims.q_lora, model.hidden);
  attention.Add("q_a_layernorm.weight", {dims.q_lora});
  attention.AddFp8("q_b_proj", model.heads * (dims.nope_dim + dims.rope_dim), dims.q_lora);
  attention.AddFp8("kv_a_proj_with_mqa", dims.kv_lora + dims.rope_dim, model.hidden);
  attention.Add("kv_a_layernorm.weight", {dims.kv_lora});
  attention.AddFp8("kv_b_proj", model.heads * (dims.nope_dim + model.head_dim), dims.kv_lora);
  attention.AddFp8("o_proj", model.hidden, model.heads * model.head_dim);
  Block mlp = layer.Below("mlp.");
  if (is_dense) {
    AddMlp(model, model.ffn, mlp);
  } else {
    mlp.Add("gate.weight", {dims.experts, model.hidden});
    mlp.AddF32("gate.e_score_correction_bias", {dims.experts});
    AddMlp(model, dims.expert_ffn, mlp.Below("shared_experts."));
    for (uint64_t expert = 0; expert < dims.experts; ++expert)
      AddMlp(model, dims.expert_ffn, mlp.Below("experts." + std::to_string(expert) + "."));
  }
  layer.Add("input_layernorm.weight", {model.hidden});
  layer.Add("post_attention_layernorm.weight", {model.hidden});
}

// The layer that predicts one token more has an embedding and a head of its own.
void AddPredictionLayer(const ModelSpec& model, Block layer) {
  AddDeepSeekLayer(model, /*is_dense=*/false, layer);
  layer.Add("embed_tokens.weight", {model.vocab, model.hidden});
  layer.Add("enorm.weight", {model.hidden});
  layer.Add("hnorm.weight", {model.hidden});
  layer.Add("eh_proj.weight", {model.hidden, 2 * model.hidden});
  layer.Add("shared_head.norm.weight", {model.hidden});
  layer.Add("shared_head.head.weight", {model.vocab, model.hidden});
}

}  // namespace

const std::vector<ModelSpec>& Models() {
  static const std::vector<ModelSpec> models{
      Qwen("qwen2.5-7b", "Qwen/Qwen2.5-7B", 28, 28, 4, 18944),
      Qwen("qwen2.5-32b", "Qwen/Qwen2.5-32B", 64, 40, 8, 27648),
      Qwen("qwen2.5-72b", "Qwen/Qwen2.5-72B", 80, 64, 8, 29568),
      Llama("llama-2-7b", "meta-llama/Llama-2-7b-hf", 32, 32, 32, 11008, false),
      Llama("llama-2-70b", "meta-llama/Llama-2-70b-chat-hf", 80, 64, 8, 28672, true),
      {.name = "llama-3.1-405b",
       .repo = "meta-llama/Llama-3.1-405B",
       .family = Family::kLlama,
       .shard_bytes = 5'000'000'000,
       .layers = 126,
       .heads = 128,
       .kv_heads = 8,
       .head_dim = 128,
       .hidden = 16384,
       .ffn = 53248,
       .vocab = 128256,
       .tokenizer_bytes = 9'085'657},
      {.name = "deepseek-r1",
       .repo = "deepseek-ai/DeepSeek-R1",
       .family = Family::kDeepSeek,
       .layers = 61,
       .heads = 128,
       .kv_heads = 128,
       .head_dim = 128,
       .hidden = 7168,
       .ffn = 18432,
       .vocab = 129280,
       .tokenizer_bytes = 7'847'602,
       .deepseek = {.dense_layers = 3,
                    .experts = 256,
                    .expert_ffn = 2048,
                    .q_lora = 1536,
                    .kv_lora = 512,
                    .nope_dim = 128,
                    .rope_dim = 64}}};
  return models;
}

std::vector<Tensor> StateDict(const ModelSpec& model) {
  std::vector<Tensor> out;
  Block top(&out, "", model.family == Family::kLlama ? "F16" : "BF16");
  top.Add("model.embed_tokens.weight", {model.vocab, model.hidden});
  for (uint64_t layer = 0; layer < model.layers; ++layer) {
    Block block = top.Below("model.layers." + std::to_string(layer) + ".");
    if (model.family == Family::kQwen2) AddQwenLayer(model, block);
    if (model.family == Family::kLlama) AddLlamaLayer(model, block);
    if (model.family == Family::kDeepSeek)
      AddDeepSeekLayer(model, layer < model.deepseek.dense_layers, block);
  }
  top.Add("model.norm.weight", {model.hidden});
  top.Add("lm_head.weight", {model.vocab, model.hidden});
  if (model.family == Family::kDeepSeek)
    AddPredictionLayer(model, top.Below("model.layers." + std::to_string(model.layers) + "."));
  return out;
}

}  // namespace ppc::bench
