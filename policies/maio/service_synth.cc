// SPDX-License-Identifier: Apache-2.0
//
// Templates from headers in a service's life: for the whole model when none is
// recorded, and for single files that have changed since.
#include <algorithm>
#include <cerrno>

#include "policies/maio/service.h"
#include "policies/maio/template/template_compare.h"

namespace ppc::maio {
namespace {

constexpr uint64_t kBudgetNs = 3'000'000'000;      // of a control message
constexpr uint64_t kMaxHeaderBytes = 16ull << 20;  // larger ones cost the runner too much memory

// The mount through the runtime, for a limited time.
class MountSource : public ModelSource {
 public:
  explicit MountSource(const ppc_context* context)
      : context_(context), deadline_(context->now_ns(context) + kBudgetNs) {}

  int Stat(const std::string& path, Info* out) override {
    if (!ValidPath(path)) return -EINVAL;
    ppc_file_info info = {};
    if (int rc = context_->file_info(context_, path.c_str(), &info); rc != 0) return rc;
    *out = {path, info.size, info.mtime_ns};
    return 0;
  }
  int64_t Read(const std::string& path, uint64_t offset, void* out, size_t bytes) override {
    if (context_->now_ns(context_) > deadline_) return -ETIMEDOUT;
    return context_->read(context_, path.c_str(), offset, out, bytes);
  }
  int List(const std::string& path, std::vector<std::string>* names) override {
    names->clear();
    auto add = [](void* arg, const char* name, char kind) {
      auto* list = static_cast<std::vector<std::string>*>(arg);
      if (kind != '?') list->emplace_back(name);
      return list->size() < kMaxFiles ? 0 : 1;
    };
    return context_->list_dir(context_, path.c_str(), add, names);
  }

 private:
  const ppc_context* context_;
  uint64_t deadline_;
};

uint32_t NumberOf(const nlohmann::json& params, std::initializer_list<const char*> keys) {
  for (const char* key : keys) {
    auto it = params.find(key);
    if (it != params.end() && it->is_number_unsigned() && it->get<uint64_t>() < kMaxGroups)
      return it->get<uint32_t>();
  }
  return 0;
}

std::string TextOf(const nlohmann::json& params, std::initializer_list<const char*> keys) {
  for (const char* key : keys) {
    auto it = params.find(key);
    if (it != params.end() && it->is_string()) return it->get<std::string>();
  }
  return "";
}

}  // namespace

Fingerprint Service::FingerprintOf(const std::string& path, uint64_t size, FileKind* kind) const {
  MountSource source(context_);
  return FileFingerprint(&source, path, size, kind);
}

uint32_t Service::TensorParallel() const {
  return spec_.params.is_object() ? NumberOf(spec_.params, {"tp", "tensor_parallel_size"}) : 0;
}

SynthOptions Service::SynthOptionsFor(uint32_t workers) const {
  SynthOptions options;
  options.service_id = spec_.service_id;
  options.max_header_bytes = kMaxHeaderBytes;
  options.created_ns = start_ns_;
  options.tp = TensorParallel() != 0 ? TensorParallel() : workers;
  if (spec_.params.is_object()) options.loader = ParseLoaderKind(TextOf(spec_.params, {"loader"}));
  options.tp = std::max(options.tp, 1u);
  return options;
}

std::optional<Template> Service::SynthesizeModel() {
  MountSource source(context_);
  std::string model;
  if (spec_.params.is_object()) model = TextOf(spec_.params, {"model_path", "path", "model"});
  std::optional<std::string> dir = FindModelDir(&source, context_->mount, model);
  if (!dir) return std::nullopt;
  std::string error;
  SynthOptions options = SynthOptionsFor(spec_.workers);
  if (spec_.params.is_object()) {
    std::string file = TextOf(spec_.params, {"model"});
    file = file.substr(file.rfind('/') + 1);
    const FileKind kind = KindOfPath(file);
    if (kind == FileKind::kSafetensors || kind == FileKind::kGguf) options.only = file;
  }
  std::optional<Template> t = Synthesize(&source, *dir, options, &error);
  if (!t) {
    Log(PPC_LOG_INFO, "maio: service " + spec_.service_id + ": no template from headers: " + error);
    return std::nullopt;
  }
  // Data-parallel workers read what the first ones read.
  std::vector<TemplateGroup> first = t->groups;
  for (uint32_t worker = options.tp; worker < std::min(spec_.workers, kMaxGroups - 1); worker++) {
    for (TemplateGroup copy : first) {
      if (copy.id != worker % options.tp) continue;
      copy.id = worker;
      t->groups.push_back(std::move(copy));
    }
  }
  if (!Check(*t).empty()) return std::nullopt;
  return t;
}

bool Service::RepairFile(Template* t, uint32_t file) {
  if (t->files[file].kind != FileKind::kSafetensors && t->files[file].kind != FileKind::kGguf)
    return false;
  uint32_t workers = 0;
  for (const TemplateGroup& group : t->groups) {
    if (group.id != kCommonGroup) workers = std::max(workers, group.id + 1);
  }
  MountSource source(context_);
  std::string error;
  std::optional<Template> fresh =
      SynthesizeFile(&source, t->files[file].path, SynthOptionsFor(workers), &error);
  if (!fresh || !ReplaceFile(t, file, *fresh)) return false;
  synthesized_files_++;
  return true;
}

}  // namespace ppc::maio
