// SPDX-License-Identifier: Apache-2.0
//
// What a model's headers say a service will read, see prepare.h.
#include <algorithm>
#include <utility>

#include "policies/maio/base/names.h"
#include "policies/maio/base/tuning.h"
#include "policies/maio/synth/load_params.h"
#include "policies/maio/synth/mount_source.h"
#include "policies/maio/synth/prepare.h"
#include "policies/maio/synth/synth.h"
#include "policies/maio/synth/synth_files.h"
#include "policies/maio/template/shared_store.h"
#include "policies/maio/template/template_compare.h"

namespace ppc::maio {

uint32_t Preparer::TensorParallel() const {
  return spec_.params.is_object() ? NumberOf(spec_.params, {"tp", "tensor_parallel_size"}) : 0;
}

std::string Preparer::LoadFormat() const {
  return spec_.params.is_object() ? TextOf(spec_.params, {"load_format"}) : "";
}

SynthOptions Preparer::SynthOptionsFor(uint32_t workers) const {
  SynthOptions options;
  options.service_id = spec_.template_id;
  options.max_header_bytes = kMaxHeaderBytes;
  options.created_ns = start_ns_;
  options.loader = LoaderOf(LoadFormat());
  options.format = WeightsOf(LoadFormat());
  // Of several nodes all hold the model together, unless the parameters say otherwise.
  uint32_t all = std::max(workers * spec_.nodes, 1u);
  options.tp = all;
  if (!spec_.params.is_object()) return options;
  const auto number = [&](std::initializer_list<const char*> keys) {
    return std::max(NumberOf(spec_.params, keys), 1u);
  };
  options.pp = number({"pp", "pipeline_parallel_size"});
  const uint32_t replicas = number({"dp", "data_parallel_size"});
  if (workers == 0) all = std::max(TensorParallel(), 1u) * options.pp * replicas;
  options.tp =
      TensorParallel() != 0 ? TensorParallel() : std::max(all / (options.pp * replicas), 1u);
  options.ep = NumberOf(spec_.params, {"ep", "expert_parallel_size"});
  // Among all workers of a stage, as vLLM does.
  if (spec_.params.value("ep", nlohmann::json()) == true)
    options.ep = std::max(all / options.pp, 1u);
  if (const auto told = ParseLoaderKind(TextOf(spec_.params, {"loader"}))) options.loader = told;
  return options;
}

// A model that guesses for another is read after it, by the same workers.
void Preparer::AddDraft(ModelSource* source, SynthOptions options, Template* t) const {
  const std::string draft = spec_.params.is_object() ? TextOf(spec_.params, {"draft"}) : "";
  if (options.pp > 1 || !draft.starts_with(std::string(context_->mount) + "/")) return;
  const std::optional<ModelPlace> place = FindModel(source, context_->mount, draft);
  if (!place) return;
  options.ep = 0;
  options.only = place->file;
  std::string error;
  const std::optional<Template> read = Synthesize(source, place->dir, options, &error);
  if (read) CompleteWith(t, *read);
}

std::optional<Template> Preparer::SynthesizeModel() {
  if (const std::string why = WhyNotAhead(LoadFormat()); !why.empty()) {
    out_.reason += "; " + why;
    return std::nullopt;
  }
  MountSource source(context_);
  const std::optional<ModelPlace> place = FindPlace(&source);
  if (!place) return std::nullopt;
  std::string error;
  SynthOptions options = SynthOptionsFor(spec_.workers);
  options.only = place->file;
  options.missing = &missing_;
  if (spec_.nodes > 1 && spec_.first_worker + spec_.workers <= options.workers()) {
    options.first = spec_.first_worker;
    options.count = spec_.workers;
  }
  std::optional<Template> t = Synthesize(&source, place->dir, options, &error);
  if (!t) {
    Log(PPC_LOG_INFO, "maio: service " + spec_.service_id + ": no template from headers: " + error);
    return std::nullopt;
  }
  AddDraft(&source, options, &*t);
  // Data-parallel workers read what the first ones read.
  uint32_t workers = spec_.nodes > 1 ? spec_.first_worker + spec_.workers : spec_.workers;
  if (workers == 0 && spec_.params.is_object()) {
    workers = options.tp * options.pp * NumberOf(spec_.params, {"dp", "data_parallel_size"});
    if (workers >= kMaxGroups) workers = 0;  // of several nodes, and which are here is not known
  }
  if (workers > options.workers())
    AddReplicas(options.workers(), workers, &*t, spec_.nodes > 1 ? spec_.first_worker : 0);
  if (spec_.nodes > 1 && !TakeOwnGroups(spec_, &*t)) return std::nullopt;
  if (!Check(*t).empty()) return std::nullopt;
  return t;
}

bool Preparer::RepairFile(Template* t, uint32_t file) {
  if (!HasContents(t->files[file].kind)) return false;
  uint32_t workers = 0;
  for (const TemplateGroup& group : t->groups) {
    if (group.id != kCommonGroup) workers = std::max(workers, group.id + 1);
  }
  MountSource source(context_);
  std::string error;
  std::optional<Template> fresh =
      SynthesizeFile(&source, t->files[file].path, SynthOptionsFor(workers), &error);
  if (!fresh || (spec_.nodes > 1 && !TakeOwnGroups(spec_, &*fresh))) return false;
  if (!ReplaceFile(t, file, *fresh)) return false;
  out_.synthesized_files++;
  return true;
}

}  // namespace ppc::maio
