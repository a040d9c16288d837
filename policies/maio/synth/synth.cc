// SPDX-License-Identifier: Apache-2.0
//
// From tables of contents to a template: walks the tensors as a loader of the
// given kind does and lets the recorder write down what it would have seen.
#include "policies/maio/synth/synth.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string_view>

#include "policies/maio/record/recorder.h"
#include "policies/maio/synth/synth_files.h"
#include "policies/maio/synth/synth_header.h"
#include "policies/maio/synth/synth_slice.h"

namespace ppc::maio {
namespace {

// Readers take the rows of narrow slices as a whole, up to this distance between rows.
constexpr uint64_t kReadStride = 512 << 10;
constexpr uint64_t kAfterInitNs = 1'000'000'000;

struct Kind {
  const char* name;
  LoaderKind kind;
};
constexpr Kind kKinds[] = {{"mmap", LoaderKind::kMmap},
                           {"read", LoaderKind::kRead},
                           {"mmap-layers", LoaderKind::kMmapLayers},
                           {"read-layers", LoaderKind::kReadLayers},
                           {"whole", LoaderKind::kWhole},
                           {"ranks", LoaderKind::kRanks}};

constexpr int64_t kAfterLayers = int64_t{1} << 31;

// Number of the layer a tensor belongs to; -1: before all layers, kAfterLayers: after them.
int64_t LayerOf(const std::string& name) {
  for (size_t dot = name.find('.'); dot != std::string::npos; dot = name.find('.', dot + 1)) {
    size_t end = dot + 1;
    int64_t number = 0;
    while (end < name.size() && end < dot + 8 && name[end] >= '0' && name[end] <= '9')
      number = number * 10 + (name[end++] - '0');
    if (end > dot + 1 && (end == name.size() || name[end] == '.')) return number;
  }
  return name.find("emb") != std::string::npos ? -1 : kAfterLayers;
}

// The stage of a pipeline that holds a layer, as vLLM cuts: what is left over goes to the last
// stages but one, embeddings to the first and the head to the last.
uint32_t StageOf(int64_t layer, uint32_t stages, uint64_t layers) {
  if (layer < 0) return 0;
  const auto number = static_cast<uint64_t>(layer);
  const uint64_t each = layers / stages;
  const uint64_t more = layers % stages;
  uint64_t end = 0;
  for (uint32_t stage = 0; stage + 1 < stages; stage++) {
    end += each + (stage + 1 + more >= stages ? 1 : 0);
    if (number < end) return stage;
  }
  return stages - 1;
}

// Of model.layers.3.mlp.experts.17.up_proj.weight 17; -1: of no single expert.
int64_t ExpertOf(const std::string& name) {
  constexpr std::string_view kExperts = ".experts.";
  const size_t at = name.find(kExperts);
  if (at == std::string::npos) return -1;
  int64_t number = -1;
  for (size_t i = at + kExperts.size(); i < name.size() && i < at + kExperts.size() + 6; i++) {
    if (name[i] < '0' || name[i] > '9') break;
    number = std::max<int64_t>(number, 0) * 10 + (name[i] - '0');
  }
  return number;
}

class Walk {
 public:
  Walk(const SynthOptions& options, LoaderKind kind, const ModelShape& shape)
      : options_(options),
        kind_(kind),
        by_layer_(kind == LoaderKind::kMmapLayers || kind == LoaderKind::kReadLayers),
        shape_(shape),
        recorder_(0) {}

  // Template files keep this order; small ones are read by the service itself.
  void AddSmall(const ModelSource::Info& info, const Fingerprint& fingerprint) {
    uint32_t file = Add(info, FileKind::kSmall, fingerprint);
    recorder_.Touch(kCommonGroup, file, 0, Pages(info.size), 0);
    if (!info.path.ends_with(".index.json")) return;
    for (uint32_t worker = options_.first; worker < options_.end(); worker++)
      recorder_.Touch(worker, file, 0, Pages(info.size), 0);
  }
  // In the order in which loaders open them.  Of all kinds but those that go by layer, nothing is
  // kept of a file but its extents.
  void AddModelFile(ModelFile file, const Fingerprint& fingerprint) {
    const auto place = static_cast<uint32_t>(files_.size());
    numbers_.push_back(Add(file.info, file.kind, fingerprint));
    files_.push_back(std::move(file));
    if (by_layer_) return;
    for (uint32_t worker = options_.first; worker < options_.end(); worker++)
      TouchFile(worker, place);
    files_.back().tensors = std::vector<SynthTensor>();  // {} would keep their memory
    recorder_.Forget(numbers_.back());
  }

  Template Finish() {
    for (uint32_t worker = options_.first; by_layer_ && worker < options_.end(); worker++)
      Layers(worker);
    files_.clear();
    Template t = std::move(recorder_).Finish(options_.service_id, kComplete | kSynthetic,
                                             options_.created_ns);
    for (TemplateGroup& group : t.groups) {
      group.time_ms.clear();  // nobody has measured
      group.first_ms = group.last_ms = 0;
    }
    return t;
  }

 private:
  static uint64_t Pages(uint64_t bytes) { return (bytes + kPage - 1) / kPage; }

  uint32_t Add(const ModelSource::Info& info, FileKind kind, const Fingerprint& fingerprint) {
    TemplateFile file;
    file.path = info.path;
    file.size = info.size;
    file.mtime_ns = info.mtime_ns;
    file.kind = kind;
    file.fingerprint = fingerprint;
    return static_cast<uint32_t>(recorder_.AddFile(++last_number_, file));
  }

  void Touch(uint32_t worker, size_t file, uint64_t begin, uint64_t end) {
    if (begin < end)
      recorder_.Touch(worker, numbers_[file], begin / kPage, Pages(end), kAfterInitNs);
  }

  // True: nothing of the file is left for tensors to tell.
  bool TouchWhole(uint32_t worker, size_t file) {
    const ModelFile& model = files_[file];
    const bool is_others = model.rank >= 0 && static_cast<uint32_t>(model.rank) != worker;
    const bool is_dealt = kind_ == LoaderKind::kRanks && model.rank < 0;
    if (is_others || (is_dealt && file % options_.workers() != worker)) return true;
    const bool is_whole = model.rank >= 0 || model.kind == FileKind::kOther ||
                          kind_ == LoaderKind::kWhole || kind_ == LoaderKind::kRanks;
    if (is_whole) Touch(worker, file, 0, model.info.size);
    return is_whole;
  }

  void TouchFile(uint32_t worker, uint32_t file) {
    if (TouchWhole(worker, file) || files_[file].tensors.empty()) return;
    Touch(worker, file, 0, files_[file].data_offset);
    for (const SynthTensor& tensor : files_[file].tensors) TouchTensor(worker, file, tensor);
  }

  void Layers(uint32_t worker) {
    struct Step {
      int64_t layer;
      size_t file;
      const SynthTensor* tensor;
    };
    std::vector<Step> steps;
    for (size_t i = 0; i < files_.size(); i++) {
      if (TouchWhole(worker, i)) continue;
      Touch(worker, i, 0, files_[i].data_offset);
      for (const SynthTensor& tensor : files_[i].tensors)
        steps.push_back({LayerOf(tensor.name), i, &tensor});
    }
    std::stable_sort(steps.begin(), steps.end(),
                     [](const Step& a, const Step& b) { return a.layer < b.layer; });
    for (const Step& step : steps) TouchTensor(worker, step.file, *step.tensor);
  }

  void TouchTensor(uint32_t worker, size_t file, const SynthTensor& tensor) {
    const uint32_t rank = worker % options_.tp;
    if (options_.pp > 1 && shape_.layers != 0) {
      const uint32_t stage = StageOf(LayerOf(tensor.name), options_.pp, shape_.layers);
      if (stage != worker / options_.tp % options_.pp) return;
    }
    if (options_.ep > 1 && TouchExperts(worker, file, tensor)) return;
    for (const SynthRange& range : SliceOf(tensor, rank, options_.tp, shape_))
      TouchRange(worker, file, range);
  }

  // True: it is an expert's, or several experts', of which each worker holds whole ones, one after
  // the other.  How others split experts is not known: then each reads its slice, as of any tensor.
  bool TouchExperts(uint32_t worker, size_t file, const SynthTensor& tensor) {
    // Those of one stage share its experts, whichever replica they are of.
    const uint32_t replica = worker / (options_.tp * options_.pp);
    const uint32_t rank = (replica * options_.tp + worker % options_.tp) % options_.ep;
    const int64_t expert = ExpertOf(tensor.name);
    if (expert >= 0) {
      if (shape_.experts == 0 || shape_.experts % options_.ep != 0) return false;
      const auto owner = static_cast<uint64_t>(expert) / (shape_.experts / options_.ep);
      if (owner == rank) Touch(worker, file, tensor.begin, tensor.end);
      return true;
    }
    const bool is_fused = tensor.name.find(".experts.") != std::string::npos &&
                          tensor.shape.size() == 3 && tensor.shape[0] % options_.ep == 0;
    if (!is_fused || tensor.shape[0] == 0) return false;
    const uint64_t bytes = (tensor.end - tensor.begin) / options_.ep;
    Touch(worker, file, tensor.begin + rank * bytes, tensor.begin + (rank + 1) * bytes);
    return true;
  }

  void TouchRange(uint32_t worker, size_t file, const SynthRange& range) {
    uint64_t gap = range.stride - range.run;
    bool reads = kind_ == LoaderKind::kRead || kind_ == LoaderKind::kReadLayers;
    // Short rows close to each other are one range to the recorder, too.
    bool joined = range.rows == 1 || gap <= kMergeGapPages * kPage / 2 ||
                  (range.run <= kRowPages * kPage / 2 && gap <= kRowGapPages * kPage / 2) ||
                  (reads && range.stride <= kReadStride);
    if (joined) {
      Touch(worker, file, range.begin, range.end());
      return;
    }
    for (uint64_t row = 0; row < range.rows; row++) {
      uint64_t begin = range.begin + row * range.stride;
      Touch(worker, file, begin, begin + range.run);
    }
  }

  const SynthOptions& options_;
  LoaderKind kind_;
  bool by_layer_;
  ModelShape shape_;
  std::vector<ModelFile> files_;
  std::vector<uint32_t> numbers_;
  Recorder recorder_;
  uint64_t last_number_ = 0;
};

LoaderKind KindFor(const SynthOptions& options, const ModelFile& first) {
  if (options.loader) return *options.loader;
  return first.kind == FileKind::kSafetensors ? LoaderKind::kMmap : LoaderKind::kWhole;
}

bool CheckOptions(const SynthOptions& options, std::string* error) {
  const uint64_t workers = uint64_t{options.pp} * std::max(options.tp, options.ep);
  if (options.tp == 0 || workers == 0 || workers > kMaxWorkers) {
    *error = "the number of workers must be between 1 and " + std::to_string(kMaxWorkers);
    return false;
  }
  if (!ValidServiceId(options.service_id)) *error = "invalid service ID";
  return error->empty();
}

std::optional<Template> Checked(Template t, std::string* error) {
  *error = Check(t);
  if (!error->empty()) return std::nullopt;
  return t;
}

}  // namespace

std::optional<LoaderKind> ParseLoaderKind(const std::string& name) {
  for (const Kind& kind : kKinds) {
    if (name == kind.name) return kind.kind;
  }
  return std::nullopt;
}

const char* LoaderKindNames() { return "mmap, read, mmap-layers, read-layers, whole, ranks"; }

std::optional<Template> Synthesize(ModelSource* source, const std::string& dir,
                                   const SynthOptions& options, std::string* error) {
  error->clear();
  if (!CheckOptions(options, error)) return std::nullopt;
  FoundFiles found;
  if (!FindFiles(source, dir, options, &found, error)) return std::nullopt;
  std::vector<ModelSource::Info> infos = found.small;
  for (const FoundFile& one : found.models) infos.push_back(one.info);
  ReadTablesAhead(source, infos);
  const auto read = [&](const FoundFile& one) {
    ModelFile file;
    file.info = one.info;
    file.rank = one.rank;
    const bool ok = one.is_plain || ReadTable(source, options.max_header_bytes, &file, error);
    return ok ? std::optional(std::move(file)) : std::nullopt;
  };
  std::optional<ModelFile> file = read(found.models[0]);
  if (!file) return std::nullopt;
  const LoaderKind kind = KindFor(options, *file);
  Walk walk(options, kind, found.shape);
  for (const ModelSource::Info& info : found.small)
    walk.AddSmall(info, FileFingerprint(source, info.path, info.size, nullptr));
  for (size_t i = 0; i < found.models.size(); i++) {
    const ModelSource::Info& info = found.models[i].info;
    if (i != 0) file = read(found.models[i]);
    if (!file) return std::nullopt;
    walk.AddModelFile(*std::move(file), FileFingerprint(source, info.path, info.size, nullptr));
  }
  Template t = walk.Finish();
  nlohmann::json meta = {{"loader", kKinds[static_cast<size_t>(kind)].name},
                         {"recorder", "headers"},
                         {"workers", options.workers()}};
  t.meta = meta.dump();
  return Checked(std::move(t), error);
}

std::optional<Template> SynthesizeFile(ModelSource* source, const std::string& path,
                                       const SynthOptions& options, std::string* error) {
  error->clear();
  if (!CheckOptions(options, error)) return std::nullopt;
  ModelFile file;
  if (int rc = source->Stat(path, &file.info); rc != 0) {
    *error = path + ": error " + std::to_string(-rc);
    return std::nullopt;
  }
  if (!ReadTable(source, options.max_header_bytes, &file, error)) return std::nullopt;
  ModelShape shape;
  ReadShape(source, path.substr(0, path.rfind('/') + 1) + "config.json", &shape);
  Walk walk(options, KindFor(options, file), shape);
  const Fingerprint fingerprint = FileFingerprint(source, path, file.info.size, nullptr);
  walk.AddModelFile(std::move(file), fingerprint);
  return Checked(walk.Finish(), error);
}

}  // namespace ppc::maio
