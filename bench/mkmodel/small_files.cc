// SPDX-License-Identifier: Apache-2.0
// The small files of a checkpoint: configuration, index, tokenizer.
// Threads: free functions without state.
#include <algorithm>
#include <nlohmann/json.hpp>

#include "bench/common/content.h"
#include "bench/mkmodel/writer.h"

namespace ppc::bench {

std::string ConfigJson(const ModelSpec& scaled) {
  const nlohmann::ordered_json config{{"architectures", {"Qwen2ForCausalLM"}},
                                      {"attention_dropout", 0.0},
                                      {"bos_token_id", 0},
                                      {"eos_token_id", 1},
                                      {"hidden_act", "silu"},
                                      {"hidden_size", scaled.hidden()},
                                      {"initializer_range", 0.02},
                                      {"intermediate_size", scaled.ffn},
                                      {"max_position_embeddings", 32768},
                                      {"model_type", "qwen2"},
                                      {"num_attention_heads", scaled.heads},
                                      {"num_hidden_layers", scaled.layers},
                                      {"num_key_value_heads", scaled.kv_heads},
                                      {"rms_norm_eps", 1e-06},
                                      {"rope_theta", 1000000.0},
                                      {"tie_word_embeddings", false},
                                      {"torch_dtype", "bfloat16"},
                                      {"use_cache", true},
                                      {"vocab_size", scaled.vocab}};
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
