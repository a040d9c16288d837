// SPDX-License-Identifier: Apache-2.0
//
// Files of a model, see synth_files.h.
#include "policies/maio/synth/synth_files.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <nlohmann/json.hpp>
#include <set>

#include "daemon/base/digests.h"

namespace ppc::maio {
namespace {

using Json = nlohmann::json;

constexpr uint64_t kMaxConfigBytes = 1 << 20;
constexpr uint64_t kSmallBytes = 32ull << 20;
constexpr size_t kEndBytes = 64 << 10;
constexpr uint64_t kMaxTableBytes = 4ull << 20;  // of a table of contents, in a fingerprint

std::string Join(const std::string& dir, const std::string& name) {
  return dir.empty() ? name : dir + "/" + name;
}

std::string Problem(int rc) { return rc == -ELOOP ? "leads out of the mount" : std::strerror(-rc); }

// File names of the "weight_map" of an index, without a document: such indexes have 100,000 lines.
class IndexHandler : public nlohmann::json_sax<Json> {
 public:
  std::set<std::string> names;

  bool start_object(std::size_t) override { return ++depth_ <= 8; }
  bool end_object() override {
    if (--depth_ == 1) in_map_ = false;
    return true;
  }
  bool key(std::string& text) override {
    if (depth_ == 1) in_map_ = text == "weight_map";
    return true;
  }
  bool start_array(std::size_t) override { return ++depth_ <= 8; }
  bool end_array() override {
    depth_--;
    return true;
  }
  bool string(std::string& text) override {
    if (in_map_ && depth_ == 2 && names.size() < kMaxFiles) names.insert(text);
    return true;
  }
  bool null() override { return true; }
  bool boolean(bool) override { return true; }
  bool number_integer(int64_t) override { return true; }
  bool number_unsigned(uint64_t) override { return true; }
  bool number_float(double, const std::string&) override { return true; }
  bool binary(binary_t&) override { return true; }
  bool parse_error(std::size_t, const std::string&, const nlohmann::detail::exception&) override {
    return false;
  }

 private:
  int depth_ = 0;
  bool in_map_ = false;
};

bool ReadText(ModelSource* source, const std::string& path, uint64_t most, std::string* out) {
  ModelSource::Info info;
  if (source->Stat(path, &info) != 0 || info.size > most) return false;
  out->resize(info.size);
  return source->Read(info.path, 0, out->data(), out->size()) == static_cast<int64_t>(info.size);
}

// A text file as characters, read a chunk at a time: the largest index has 9 MB.
class TextReader {
 public:
  TextReader(ModelSource* source, const ModelSource::Info& info) : source_(source), info_(info) {}

  // Also when it cannot be read.
  bool AtEnd() {
    if (at_ < chunk_.size()) return false;
    offset_ += chunk_.size();
    at_ = 0;
    chunk_.resize(std::min<uint64_t>(kEndBytes, info_.size - offset_));
    const int64_t n =
        chunk_.empty() ? 0 : source_->Read(info_.path, offset_, chunk_.data(), chunk_.size());
    chunk_.resize(static_cast<size_t>(std::max<int64_t>(n, 0)));
    return chunk_.empty();
  }
  char Get() const { return chunk_[at_]; }
  void Advance() { at_++; }

  class Iterator {
   public:
    using iterator_category = std::input_iterator_tag;
    using value_type = char;
    using difference_type = std::ptrdiff_t;
    using pointer = const char*;
    using reference = char;

    explicit Iterator(TextReader* reader) : reader_(reader) {}
    char operator*() const { return reader_->Get(); }
    Iterator& operator++() {
      reader_->Advance();
      return *this;
    }
    void operator++(int) { ++*this; }
    // The end has no reader.
    bool operator==(const Iterator& other) const {
      return (reader_ == nullptr || reader_->AtEnd()) &&
             (other.reader_ == nullptr || other.reader_->AtEnd());
    }

   private:
    TextReader* reader_;
  };
  Iterator begin() { return Iterator(this); }
  Iterator end() { return Iterator(nullptr); }

 private:
  ModelSource* source_;
  ModelSource::Info info_;
  std::string chunk_;
  uint64_t offset_ = 0;
  size_t at_ = 0;
};

// "x-of-00003.gguf" of x-00001-of-00003.gguf; of a file that is none of several its own name.
std::string SetOf(const std::string& name) {
  size_t dot = name.rfind('.');
  size_t of = dot == std::string::npos ? dot : name.rfind("-of-", dot);
  size_t dash = of == std::string::npos || of == 0 ? std::string::npos : name.rfind('-', of - 1);
  if (dash == std::string::npos) return name;
  auto is_number = [&](size_t from, size_t to) {
    return from < to && std::all_of(name.begin() + static_cast<std::ptrdiff_t>(from),
                                    name.begin() + static_cast<std::ptrdiff_t>(to),
                                    [](char c) { return c >= '0' && c <= '9'; });
  };
  if (!is_number(dash + 1, of) || !is_number(of + 4, dot)) return name;
  return name.substr(0, dash) + name.substr(of, dot - of) + name.substr(dot);
}

bool ShardsOfIndex(ModelSource* source, const std::string& path, uint64_t max_bytes,
                   std::vector<std::string>* out, std::string* error) {
  ModelSource::Info info;
  IndexHandler index;
  const bool is_there = source->Stat(path, &info) == 0 && info.size <= max_bytes;
  TextReader text(source, info);
  if (!is_there || !Json::sax_parse(text.begin(), text.end(), &index) || index.names.empty()) {
    *error = path + ": the index names no files (damaged, or too large)";
    return false;
  }
  for (const std::string& name : index.names) {
    if (!ValidPath(name)) {
      *error = path + ": the index names '" + Shown(name) + "', which is no file name here";
      return false;
    }
  }
  out->assign(index.names.begin(), index.names.end());
  return true;
}

}  // namespace

void ReadShape(ModelSource* source, const std::string& path, ModelShape* out) {
  std::string text;
  if (!ReadText(source, path, kMaxConfigBytes, &text)) return;
  int deepest = 0;
  auto limit = [&](int depth, Json::parse_event_t, Json&) {
    deepest = std::max(deepest, depth);
    return depth < 16;
  };
  Json json = Json::parse(text, limit, /*allow_exceptions=*/false);
  if (!json.is_object()) return;
  if (auto it = json.find("text_config"); it != json.end() && it->is_object()) {
    Json inner = *it;
    json = std::move(inner);
  }
  auto number = [&](const char* key) {
    auto it = json.find(key);
    return it != json.end() && it->is_number_unsigned() ? it->get<uint64_t>() : 0;
  };
  out->heads = number("num_attention_heads");
  out->kv_heads = number("num_key_value_heads");
}

bool FindFiles(ModelSource* source, const std::string& dir, const std::string& only,
               uint64_t max_index_bytes, FoundFiles* out, std::string* error) {
  std::vector<std::string> names;
  if (int rc = source->List(dir, &names); rc != 0) {
    *error = (dir.empty() ? "the mount" : dir) + ": " + Problem(rc);
    return false;
  }
  std::sort(names.begin(), names.end());
  std::vector<std::string> weights;
  std::vector<std::string> ggufs;
  std::string index;
  for (const std::string& name : names) {
    ModelSource::Info info;
    FileKind kind = KindOfPath(name);
    if (kind == FileKind::kSafetensors) weights.push_back(name);
    if (kind == FileKind::kGguf) ggufs.push_back(name);
    if (name.ends_with(".safetensors.index.json")) index = name;
    if (kind == FileKind::kSmall && source->Stat(Join(dir, name), &info) == 0 && info.size != 0 &&
        info.size <= kSmallBytes && ValidPath(info.path))
      out->small.push_back(info);
  }
  const bool has_only = !only.empty() && std::find(names.begin(), names.end(), only) != names.end();
  if (has_only) {
    weights.clear();
    ggufs.clear();
    for (const std::string& name : names) {
      if (SetOf(name) == SetOf(only)) weights.push_back(name);
    }
  } else if (!index.empty() &&
             !ShardsOfIndex(source, Join(dir, index), max_index_bytes, &weights, error))
    return false;
  if (weights.empty()) weights = std::move(ggufs);
  if (weights.empty()) {
    *error = (dir.empty() ? "the mount" : dir) +
             ": no *.safetensors and no *.gguf file in it; give the model's directory";
    return false;
  }
  for (const std::string& name : weights) {
    ModelSource::Info info;
    if (int rc = source->Stat(Join(dir, name), &info); rc != 0) {
      *error = Join(dir, name) + ": " + Problem(rc) +
               (rc == -ENOENT ? "; the index lists it, download it again" : "");
      return false;
    }
    out->models.push_back(info);
  }
  ReadShape(source, Join(dir, "config.json"), &out->shape);
  return true;
}

bool ReadTable(ModelSource* source, uint64_t max_header_bytes, ModelFile* file,
               std::string* error) {
  // Below links a file may have any name.
  uint8_t magic[4] = {};
  bool is_gguf =
      source->Read(file->info.path, 0, magic, 4) == 4 && std::memcmp(magic, "GGUF", 4) == 0;
  if (is_gguf || file->info.path.ends_with(".gguf"))
    return ReadGguf(source, max_header_bytes, file, error);
  return ReadSafetensors(source, max_header_bytes, file, error);
}

Fingerprint FileFingerprint(ModelSource* source, const std::string& path, uint64_t size,
                            FileKind* kind) {
  std::vector<uint8_t> head(static_cast<size_t>(std::min<uint64_t>(kEndBytes, size)));
  int64_t n = source->Read(path, 0, head.data(), head.size());
  if (n < 0) return {};
  head.resize(static_cast<size_t>(n));
  bool is_safetensors =
      head.size() > 8 && head[8] == '{' && std::memcmp(head.data() + 4, "\0\0\0\0", 4) == 0;
  bool is_gguf = head.size() > 4 && std::memcmp(head.data(), "GGUF", 4) == 0;
  if (kind != nullptr && *kind == FileKind::kOther) {
    *kind = is_safetensors        ? FileKind::kSafetensors
            : is_gguf             ? FileKind::kGguf
            : size <= kSmallBytes ? FileKind::kSmall
                                  : FileKind::kOther;
  }
  std::vector<uint8_t> rest;
  uint64_t from = head.size();
  uint64_t bytes = 0;
  if (is_safetensors) {
    uint64_t table = 8;
    for (int i = 0; i < 4; i++) table += uint64_t{head[i]} << (8 * i);
    table = std::min({table, size, kMaxTableBytes});
    if (table < head.size()) head.resize(static_cast<size_t>(table));
    bytes = table - head.size();
  } else if (size > from) {
    bytes = std::min<uint64_t>(kEndBytes, size - from);
    from = size - bytes;
  }
  rest.resize(static_cast<size_t>(bytes));
  if (bytes != 0 && source->Read(path, from, rest.data(), rest.size()) < 0) return {};
  const std::span length(reinterpret_cast<const uint8_t*>(&size), sizeof(size));
  const Sha256Digest digest = Sha256Of({length, head, rest});
  Fingerprint fingerprint;
  std::copy_n(digest.begin(), fingerprint.size(), fingerprint.begin());
  return fingerprint;
}

std::optional<std::string> FindModelDir(ModelSource* source, const std::string& mount,
                                        const std::string& model) {
  auto has_model = [&](const std::string& dir) {
    std::vector<std::string> names;
    if (source->List(dir, &names) != 0) return false;
    return std::any_of(names.begin(), names.end(), [](const std::string& name) {
      FileKind kind = KindOfPath(name);
      return kind == FileKind::kSafetensors || kind == FileKind::kGguf;
    });
  };
  std::string path = model;
  if (path.starts_with(mount + "/")) path = path.substr(mount.size() + 1);
  while (path.ends_with("/")) path.pop_back();
  if (path == mount) path.clear();
  if (ValidPath(path)) {
    std::string cache = "models--" + path;
    for (size_t at = cache.find('/'); at != std::string::npos; at = cache.find('/', at))
      cache.replace(at, 1, "--");
    std::vector<std::string> revisions;
    for (const std::string& dir : {path, path.substr(path.rfind('/') + 1)}) {
      if (has_model(dir)) return dir;
    }
    for (const std::string& top : {cache, "hub/" + cache}) {
      if (source->List(top + "/snapshots", &revisions) != 0) continue;
      std::string found;
      int n = 0;
      for (const std::string& revision : revisions) {
        if (!ValidPath(revision) || !has_model(top + "/snapshots/" + revision)) continue;
        found = top + "/snapshots/" + revision;
        n++;
      }
      if (n == 1) return found;
    }
  }
  if (has_model("")) return "";
  std::vector<std::string> names;
  std::string found;
  int n = 0;
  if (source->List("", &names) != 0 || names.size() > 256) return std::nullopt;
  for (const std::string& name : names) {
    if (!ValidPath(name) || !has_model(name)) continue;
    found = name;
    n++;
  }
  if (n != 1) return std::nullopt;
  return found;
}

}  // namespace ppc::maio
