// SPDX-License-Identifier: Apache-2.0
//
// What the parameters of a service say of how its workers read the model.  Pure functions.
#ifndef POLICIES_MAIO_SYNTH_LOAD_PARAMS_H_
#define POLICIES_MAIO_SYNTH_LOAD_PARAMS_H_

#include <algorithm>
#include <cstdint>
#include <initializer_list>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "policies/maio/synth/synth.h"
#include "policies/maio/synth/synth_files.h"
#include "policies/maio/template/template.h"

namespace ppc::maio {

inline uint32_t NumberOf(const nlohmann::json& params, std::initializer_list<const char*> keys) {
  for (const char* key : keys) {
    auto it = params.find(key);
    if (it != params.end() && it->is_number_unsigned() && it->get<uint64_t>() <= kMaxWorkers)
      return it->get<uint32_t>();
  }
  return 0;
}

inline std::string TextOf(const nlohmann::json& params, std::initializer_list<const char*> keys) {
  for (const char* key : keys) {
    auto it = params.find(key);
    if (it != params.end() && it->is_string()) return it->get<std::string>();
  }
  return "";
}

inline bool Known(const Fingerprint& fingerprint) { return fingerprint != Fingerprint{}; }

// Data-parallel replicas: further workers read what the first tp do.  There are so many workers
// then, and no list of any other.  Of the further ones only those from `first` on are wanted.
inline void AddReplicas(uint32_t tp, uint32_t workers, Template* t, uint32_t first = 0) {
  workers = std::min(workers, kMaxWorkers);
  std::erase_if(t->groups, [workers](const TemplateGroup& group) {
    return group.id != kCommonGroup && group.id >= workers;
  });
  std::vector<TemplateGroup> copies;
  for (const TemplateGroup& group : t->groups) {
    if (group.id >= tp) continue;
    for (uint32_t worker = group.id + tp; worker < workers; worker += tp) {
      if (worker < first) continue;
      if (std::ranges::find(t->groups, worker, &TemplateGroup::id) != t->groups.end()) continue;
      copies.push_back(group);
      copies.back().id = worker;
    }
  }
  std::ranges::move(copies, std::back_inserter(t->groups));
}

// How many workers a template was recorded with; 0: not known.
inline uint32_t WorkersOf(const Template& t) {
  const auto meta = nlohmann::json::parse(t.meta, nullptr, false);
  return meta.is_object() ? NumberOf(meta, {"workers"}) : 0;
}

// How many of them held the model together; 0: not told.
inline uint32_t TensorParallelOf(const Template& t) {
  const auto meta = nlohmann::json::parse(t.meta, nullptr, false);
  const auto params = meta.is_object() ? meta.find("params") : meta.end();
  if (params == meta.end() || !params->is_object()) return 0;
  return NumberOf(*params, {"tp", "tensor_parallel_size"});
}

// What a loader of the format does, where nobody says more ("loader"); nullopt: as its files' kind
// has it.  How one that is not known splits files among workers is not known: all read all.
inline std::optional<LoaderKind> LoaderOf(const std::string& load_format) {
  for (const char* known : {"", "auto", "hf", "safetensors", "gguf", "mistral", "pt",
                            "bitsandbytes", "npcache", "sharded_state", "runai_streamer_sharded"}) {
    if (load_format == known) return std::nullopt;
  }
  return LoaderKind::kWhole;
}

inline WeightFormat WeightsOf(const std::string& load_format) {
  if (load_format == "pt" || load_format == "npcache") return WeightFormat::kTorch;
  if (load_format == "mistral") return WeightFormat::kConsolidated;
  const bool is_sharded = load_format.starts_with("sharded") || load_format.ends_with("_sharded");
  return is_sharded ? WeightFormat::kRanks : WeightFormat::kUsual;
}

// What such a loader does is known from elsewhere: it reads through the page cache.
inline bool ReadsThroughCache(const std::string& load_format, const std::string& program) {
  if (!load_format.empty())
    return !LoaderOf(load_format) || load_format == "runai_streamer" || load_format == "tensorizer";
  // Unless they are told otherwise.
  for (const char* engine : {"vllm", "sglang", "text-generation"}) {
    if (program.starts_with(engine)) return true;
  }
  return false;
}

// Why nothing of a model that is read so can be loaded ahead; "" it can.
inline std::string WhyNotAhead(const std::string& load_format) {
  if (load_format == "dummy") return "load_format dummy reads no weights";
  // With O_DIRECT, unless told otherwise: what they do read through the page cache is recorded.
  for (const char* direct : {"fastsafetensors", "instanttensor"}) {
    if (load_format == direct) return load_format + " reads past the page cache";
  }
  return "";
}

}  // namespace ppc::maio

#endif  // POLICIES_MAIO_SYNTH_LOAD_PARAMS_H_
