// SPDX-License-Identifier: Apache-2.0
//
// Which model a service reads, and which files are that model: FindModel of
// synth.h, FindFiles of synth_files.h.
#include <algorithm>
#include <cerrno>
#include <cstring>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>

#include "policies/maio/base/parallel_for.h"
#include "policies/maio/synth/synth_files.h"
#include "policies/maio/synth/synth_names.h"

namespace ppc::maio {
namespace {

constexpr char kPipeline[] = "model_index.json";
constexpr uint64_t kMaxRefBytes = 256;
constexpr size_t kMostComponents = 64;
constexpr size_t kMostRevisions = 16;
constexpr size_t kMostDirectories = 256;

// Of a pipeline of diffusers, in its order; empty: the directory holds none.
Names ComponentsOf(ModelSource* source, const std::string& dir) {
  std::string text;
  Names components;
  if (!ReadText(source, Join(dir, kPipeline), kMaxConfigBytes, &text)) return components;
  const auto json = nlohmann::ordered_json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!json.is_object()) return components;
  for (const auto& [name, value] : json.items()) {
    const bool is_one = value.is_array() && !value.empty() && value[0].is_string();
    const bool is_name = ValidPath(name) && name.find('/') == std::string::npos;
    if (is_one && is_name && components.size() < kMostComponents) components.push_back(name);
  }
  return components;
}

// Without a word of which file is meant: a pipeline, an index or a single set.  Pickles, ONNX and
// others are a model only where somebody names them.
bool IsOneModel(const Names& names) {
  if (Has(names, kPipeline) || std::ranges::any_of(names, IsIndex)) return true;
  return SetsOf(names, IsTabled).size() == 1;
}

class Finder {
 public:
  Finder(ModelSource* source, const SynthOptions& options, FoundFiles* out, std::string* error)
      : source_(source), options_(options), out_(out), error_(error) {}

  bool Find(const std::string& dir) {
    Names names;
    if (!List(dir, &names)) return false;
    AddSmall(dir, names);
    const std::string& only = options_.only;
    const bool has_only = Has(names, only) || only.find('/') != std::string::npos;
    const bool is_pipeline = Has(names, kPipeline) && (!has_only || only == kPipeline ||
                                                       only.find('/') != std::string::npos);
    if (is_pipeline) return AddComponents(dir);
    Names weights;
    return Choose(dir, names, has_only ? only : "", &weights) && Add(dir, weights);
  }

 private:
  bool Fail(const std::string& why) {
    *error_ = why;
    return false;
  }
  static std::string Shown(const std::string& dir) { return dir.empty() ? "the mount" : dir; }

  bool List(const std::string& dir, Names* names) {
    if (int rc = source_->List(dir, names); rc != 0) return Fail(Shown(dir) + ": " + Problem(rc));
    std::ranges::sort(*names);
    return true;
  }

  void AddSmall(const std::string& dir, const Names& names) {
    Names small;
    std::ranges::copy_if(names, std::back_inserter(small), [](const std::string& name) {
      return KindOfPath(name) == FileKind::kSmall;
    });
    std::vector<ModelSource::Info> infos(small.size());
    ParallelFor(small.size(), [&](size_t i) {
      if (source_->Stat(Join(dir, small[i]), &infos[i]) != 0) infos[i].size = 0;
    });
    for (size_t i = 0; i < small.size(); i++) {
      const bool is_text = KindOfPath(small[i], infos[i].size) == FileKind::kSmall;
      if (is_text && infos[i].size != 0 && ValidPath(infos[i].path))
        out_->small.push_back(infos[i]);
    }
  }

  bool AddComponents(const std::string& dir) {
    const std::string variant =
        options_.only.find('/') == std::string::npos ? "" : VariantOf(NameOf(options_.only));
    for (const std::string& component : ComponentsOf(source_, dir)) {
      const std::string below = Join(dir, component);
      Names names;
      if (source_->List(below, &names) != 0) continue;
      std::ranges::sort(names);
      AddSmall(below, names);
      if (!Add(below, WeightsOf(names, variant))) return false;
    }
    if (!out_->models.empty()) return true;
    return Fail(Shown(dir) + ": the pipeline's components have no weights; download it again");
  }

  // Of one component: safetensors where there are some, of the variant where there is one.
  static Names WeightsOf(const Names& names, const std::string& variant) {
    const auto of = [&](auto is, const std::string& wanted) {
      return SetsOf(names, [&](const std::string& n) { return is(n) && VariantOf(n) == wanted; });
    };
    for (const std::string& wanted : {variant, std::string()}) {
      for (const auto is : {IsSafetensors, IsPlain}) {
        const std::set<std::string> sets = of(is, wanted);
        if (!sets.empty()) return MembersOf(names, *std::ranges::min_element(sets, {}, SizeOf));
      }
    }
    return {};
  }
  static size_t SizeOf(const std::string& text) { return text.size(); }

  bool Choose(const std::string& dir, const Names& names, const std::string& only, Names* out) {
    if (options_.format == WeightFormat::kRanks) {
      const auto is_rank = [](const std::string& name) { return RankOf(name) >= 0; };
      return ChooseSet(dir, names, SetsOf(names, is_rank), "*-rank-N-part-M", out);
    }
    if (!only.empty()) return ChooseNamed(dir, names, only, out);
    if (options_.format == WeightFormat::kConsolidated) {
      const auto is_one = [](const std::string& name) {
        return name.starts_with("consolidated") && IsSafetensors(name);
      };
      const std::set<std::string> sets = SetsOf(names, is_one);
      if (!sets.empty()) return ChooseSet(dir, names, sets, "consolidated", out);
    }
    const bool is_torch = options_.format == WeightFormat::kTorch;
    for (const std::string& index : IndexesOf(names)) {
      if (is_torch && !index.ends_with(".bin.index.json")) continue;
      Names listed;
      if (!ReadIndex(source_, Join(dir, index), options_.max_header_bytes, &listed, error_))
        return false;
      // An index may have been copied beside files that it does not list.
      const bool is_there =
          std::ranges::any_of(listed, [&](const std::string& name) { return Has(names, name); });
      if (!is_there && !SetsOf(names, IsModelFile).empty()) continue;
      *out = std::move(listed);
      return true;
    }
    const auto is_pickle = [](const std::string& name) {
      return EndsWithAny(name, {".bin", ".pt", ".pth", ".tensors"});
    };
    std::set<std::string> sets = is_torch ? std::set<std::string>() : SetsOf(names, IsTabled);
    if (sets.empty()) sets = SetsOf(names, is_pickle);
    if (sets.size() == 1 && LiesBesideParts(dir, names)) {
      return Fail(Shown(dir) + ": " + *sets.begin() +
                  " and models in directories beside it, and no config.json or index; name the "
                  "model's file");
    }
    if (!sets.empty()) return ChooseSet(dir, names, sets, "model", out);
    sets = SetsOf(names, IsOnnx);
    if (sets.size() == 1) return ChooseNamed(dir, names, *sets.begin(), out);
    return ChooseSet(dir, names, sets, "model", out);
  }

  // Components of a pipeline without its list: a checkpoint beside them is another model.
  bool LiesBesideParts(const std::string& dir, const Names& names) const {
    if (Has(names, "config.json") || Has(names, "params.json")) return false;
    size_t looks = 0;
    return std::ranges::any_of(names, [&](const std::string& name) {
      Names below;
      if (name.find('.') != std::string::npos || looks++ >= kMostComponents) return false;
      return source_->List(Join(dir, name), &below) == 0 && !SetsOf(below, IsTabled).empty();
    });
  }

  bool ChooseSet(const std::string& dir, const Names& names, const std::set<std::string>& sets,
                 const std::string& what, Names* out) {
    if (sets.empty()) {
      return Fail(Shown(dir) + ": no " + what +
                  " file in it (*.safetensors, *.gguf, *.bin, *.pt, *.onnx); give the model's "
                  "directory");
    }
    if (sets.size() > 1) {
      return Fail(Shown(dir) + ": several models and no index, " + *sets.begin() + " and " +
                  *std::next(sets.begin()) + "; name the model's file");
    }
    *out = MembersOf(names, *sets.begin());
    return true;
  }

  bool ChooseNamed(const std::string& dir, const Names& names, const std::string& only,
                   Names* out) {
    if (IsIndex(only))
      return ReadIndex(source_, Join(dir, only), options_.max_header_bytes, out, error_);
    for (const char* end : {"_data", ".data"}) {
      const std::string model = only.substr(0, only.size() - std::min<size_t>(only.size(), 5));
      if (only.ends_with(end) && IsOnnx(model) && Has(names, model))
        return ChooseNamed(dir, names, model, out);
    }
    if (IsOnnx(only)) return ChooseOnnx(dir, only, out);
    for (const std::string& index : IndexesOf(names)) {
      Names listed;
      std::string damaged;
      if (!ReadIndex(source_, Join(dir, index), options_.max_header_bytes, &listed, &damaged))
        continue;
      if (!Has(listed, only)) continue;
      *out = std::move(listed);
      return true;
    }
    *out = MembersOf(names, SetOf(only));
    return true;
  }

  bool ChooseOnnx(const std::string& dir, const std::string& name, Names* out) {
    ModelSource::Info info;
    if (int rc = source_->Stat(Join(dir, name), &info); rc != 0)
      return Fail(Join(dir, name) + ": " + Problem(rc));
    *out = {name};
    Names external;
    // Too much of it would have to be read: its data are found when they are.
    if (!ReadExternalData(source_, info, options_.max_header_bytes, &external)) return true;
    out->insert(out->end(), external.begin(), external.end());
    is_external_ = true;
    return true;
  }

  bool Add(const std::string& dir, const Names& weights) {
    std::vector<FoundFile> files(weights.size());
    std::vector<int> problems(weights.size(), 0);
    ParallelFor(weights.size(), [&](size_t i) {
      problems[i] = source_->Stat(Join(dir, weights[i]), &files[i].info);
    });
    // What is there of an incomplete copy may be loaded for its readers.
    const bool may_lack = options_.missing != nullptr && std::ranges::count(problems, 0) != 0;
    for (size_t i = 0; i < weights.size(); i++) {
      if (problems[i] == -ENOENT && may_lack) {
        options_.missing->insert(Join(dir, weights[i]));
        continue;
      }
      if (int rc = problems[i]; rc != 0) {
        return Fail(Join(dir, weights[i]) + ": " + Problem(rc) +
                    (rc == -ENOENT ? "; the index lists it, download it again" : ""));
      }
      files[i].is_plain = IsPlain(weights[i]) || is_external_;
      files[i].rank = RankOf(weights[i]);
      out_->models.push_back(std::move(files[i]));
    }
    return true;
  }

  ModelSource* const source_;
  const SynthOptions& options_;
  FoundFiles* const out_;
  std::string* const error_;
  bool is_external_ = false;  // what is added is an ONNX model and its data
};

// Whether two names are one file's.
bool IsSame(const ModelSource::Info& a, const ModelSource::Info& b) {
  return a.number != 0 ? a.number == b.number : a.path == b.path;
}

// Of a hub's repository the revisions that are there, first the one that the branch main is at.
Names RevisionsOf(ModelSource* source, const std::string& repository) {
  Names revisions;
  std::string main;
  Names names;
  if (source->List(Join(repository, "snapshots"), &names) != 0) return revisions;
  if (ReadText(source, Join(repository, "refs/main"), kMaxRefBytes, &main)) {
    main.erase(std::min(main.find_first_of(" \r\n"), main.size()));
    if (ValidPath(main) && Has(names, main)) revisions.push_back(main);
  }
  std::ranges::sort(names);
  for (const std::string& name : names) {
    if (ValidPath(name) && name != main && revisions.size() < kMostRevisions)
      revisions.push_back(name);
  }
  return revisions;
}

bool HoldsModel(ModelSource* source, const std::string& dir) {
  Names names;
  if (source->List(dir, &names) != 0) return false;
  return Has(names, kPipeline) || std::ranges::any_of(names, IsIndex) ||
         std::ranges::any_of(names, IsModelFile);
}

// The snapshot that main is at, else the only one.
std::optional<ModelPlace> InHub(ModelSource* source, const std::string& repository) {
  Names revisions = RevisionsOf(source, repository);
  std::string main;
  const bool has_main = ReadText(source, Join(repository, "refs/main"), kMaxRefBytes, &main);
  std::erase_if(revisions, [&](const std::string& revision) {
    return !HoldsModel(source, Join(repository, "snapshots/" + revision));
  });
  if (revisions.empty()) return std::nullopt;
  const bool is_told = has_main && main.starts_with(revisions[0]);
  if (!is_told && revisions.size() != 1) return std::nullopt;
  return ModelPlace{Join(repository, "snapshots/" + revisions[0]), ""};
}

// The name that a snapshot of the repository has for a blob; "" none.
std::string NameOfBlob(ModelSource* source, const std::string& repository,
                       const ModelSource::Info& blob) {
  const auto find = [&](const std::string& dir) -> std::string {
    Names names;
    if (source->List(dir, &names) != 0) return "";
    for (const std::string& name : names) {
      ModelSource::Info info;
      const std::string path = Join(dir, name);
      if (source->Stat(path, &info) == 0 && IsSame(info, blob)) return path;
    }
    return "";
  };
  for (const std::string& revision : RevisionsOf(source, repository)) {
    const std::string snapshot = Join(repository, "snapshots/" + revision);
    std::string name = find(snapshot);
    if (!name.empty()) return name;
    for (const std::string& component : ComponentsOf(source, snapshot)) {
      name = find(Join(snapshot, component));
      if (!name.empty()) return name;
    }
  }
  return "";
}

// A file says which model it is of.
std::optional<ModelPlace> PlaceOfFile(ModelSource* source, const std::string& path,
                                      const ModelSource::Info& info) {
  const std::string dir = DirOf(path);
  const std::string name = NameOf(path);
  if (NameOf(dir) == "blobs") {
    const std::string link = NameOfBlob(source, DirOf(dir), info);
    if (!link.empty()) return PlaceOfFile(source, link, info);
  }
  const bool is_told = IsIndex(name) || name == kPipeline;
  if (!dir.empty() && !is_told && Has(ComponentsOf(source, DirOf(dir)), NameOf(dir)))
    return ModelPlace{DirOf(dir), NameOf(dir) + "/" + name};
  if (is_told || KindOfPath(name) != FileKind::kSmall) return ModelPlace{dir, name};
  // Configuration, a tokenizer: the only model beside it.
  Names names;
  if (source->List(dir, &names) != 0 || !IsOneModel(names)) return std::nullopt;
  return ModelPlace{dir, ""};
}

}  // namespace

bool FindFiles(ModelSource* source, const std::string& dir, const SynthOptions& options,
               FoundFiles* out, std::string* error) {
  if (!Finder(source, options, out, error).Find(dir)) return false;
  if (out->models.empty()) {
    *error = (dir.empty() ? "the mount" : dir) + ": no model in it";
    return false;
  }
  ReadShape(source, Join(dir, "config.json"), &out->shape);
  return true;
}

std::optional<ModelPlace> FindModel(ModelSource* source, const std::string& mount,
                                    const std::string& model) {
  std::string path = model;
  if (path.starts_with(mount + "/")) path = path.substr(mount.size() + 1);
  while (path.ends_with("/")) path.pop_back();
  if (path == mount) path.clear();
  if (ValidPath(path)) {
    for (const std::string& name : {path, NameOf(path)}) {
      ModelSource::Info info;
      if (source->Stat(name, &info) == 0) return PlaceOfFile(source, name, info);
      if (HoldsModel(source, name)) return ModelPlace{name, ""};
    }
    std::string cache = "models--" + path;
    for (size_t at = cache.find('/'); at != std::string::npos; at = cache.find('/', at))
      cache.replace(at, 1, "--");
    for (const std::string& repository : {cache, "hub/" + cache}) {
      if (auto place = InHub(source, repository)) return place;
    }
  }
  if (auto place = InHub(source, "")) return place;
  Names names;
  if (source->List("", &names) != 0) return std::nullopt;
  if (IsOneModel(names)) return ModelPlace{};
  if (names.size() > kMostDirectories) return std::nullopt;
  std::optional<ModelPlace> found;
  for (const std::string& name : names) {
    Names below;
    if (!ValidPath(name) || source->List(name, &below) != 0) continue;
    const bool is_one = IsOneModel(below);
    if (!is_one && SetsOf(below, IsTabled).empty()) continue;
    if (found || !is_one) return std::nullopt;
    found = ModelPlace{name, ""};
  }
  return found;
}

}  // namespace ppc::maio
