// SPDX-License-Identifier: Apache-2.0
// The small files of a checkpoint: configuration, index, tokenizer.
// Threads: free functions without state.
#include <algorithm>
#include <nlohmann/json.hpp>

#include "tools/model/common/content.h"
#include "tools/model/mkmodel/writer.h"

namespace ppc::bench {

std::string ConfigJson(const ModelSpec& scaled) {
  struct Names {
    const char* architecture;
    const char* type;
    const char* dtype;
  };
  const Names names =
      scaled.family == Family::kQwen2   ? Names{"Qwen2ForCausalLM", "qwen2", "bfloat16"}
      : scaled.family == Family::kLlama ? Names{"LlamaForCausalLM", "llama", "float16"}
                                        : Names{"DeepseekV3ForCausalLM", "deepseek_v3", "bfloat16"};
  nlohmann::ordered_json config{{"architectures", {names.architecture}},
                                {"attention_dropout", 0.0},
                                {"bos_token_id", 0},
                                {"eos_token_id", 1},
                                {"hidden_act", "silu"},
                                {"hidden_size", scaled.hidden},
                                {"initializer_range", 0.02},
                                {"intermediate_size", scaled.ffn},
                                {"max_position_embeddings", 32768},
                                {"model_type", names.type},
                                {"num_attention_heads", scaled.heads},
                                {"num_hidden_layers", scaled.layers},
                                {"num_key_value_heads", scaled.kv_heads},
                                {"rms_norm_eps", 1e-06},
                                {"rope_theta", 1000000.0},
                                {"tie_word_embeddings", false},
                                {"torch_dtype", names.dtype},
                                {"use_cache", true},
                                {"vocab_size", scaled.vocab}};
  if (scaled.family == Family::kDeepSeek) {
    const DeepSeekDims& dims = scaled.deepseek;
    config["first_k_dense_replace"] = dims.dense_layers;
    config["kv_lora_rank"] = dims.kv_lora;
    config["moe_intermediate_size"] = dims.expert_ffn;
    config["n_routed_experts"] = dims.experts;
    config["n_shared_experts"] = 1;
    config["num_nextn_predict_layers"] = 1;
    config["q_lora_rank"] = dims.q_lora;
    config["qk_nope_head_dim"] = dims.nope_dim;
    config["qk_rope_head_dim"] = dims.rope_dim;
    config["quantization_config"] = {{"activation_scheme", "dynamic"},
                                     {"fmt", "e4m3"},
                                     {"quant_method", "fp8"},
                                     {"weight_block_size", {128, 128}}};
    config["v_head_dim"] = scaled.head_dim;
  }
  return config.dump(2) + "\n";
}

std::string IndexJson(const std::vector<Shard>& shards) {
  nlohmann::json map = nlohmann::json::object();
  uint64_t total = 0;
  for (const Shard& shard : shards)
    for (const Tensor& tensor : shard.tensors) {
      map[tensor.name] = shard.file;
      total += tensor.bytes();
    }
  const nlohmann::ordered_json index{{"metadata", {{"total_size", total}}}, {"weight_map", map}};
  return index.dump(2) + "\n";
}

std::string TokenizerJson(uint64_t seed, uint64_t bytes) {
  const uint64_t key = FileKey(seed, 0x746f6b);
  std::string vocab, merges;
  for (uint64_t id = 0; vocab.size() + merges.size() < std::max<uint64_t>(bytes, 512); ++id) {
    std::string token;
    for (uint64_t word = ContentWord(key, id), n = 2 + word % 8; n > 0; --n, word /= 26)
      token += static_cast<char>('a' + word % 26);
    token += std::to_string(id);
    vocab += (id == 0 ? "\n" : ",\n") + ("      \"" + token + "\": " + std::to_string(id));
    merges += (id == 0 ? "\n" : ",\n") + ("      \"" + token.substr(0, 1) + " ") +
              (token.substr(1) + "\"");
  }
  return "{\n  \"version\": \"1.0\",\n  \"model\": {\n    \"type\": \"BPE\",\n    \"vocab\": {" +
         vocab + "\n    },\n    \"merges\": [" + merges + "\n    ]\n  }\n}\n";
}

}  // namespace ppc::bench
