// SPDX-License-Identifier: Apache-2.0
//
// Files of a model, see synth_files.h.
#include "policies/maio/synth/synth_files.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <nlohmann/json.hpp>
#include <set>

#include "daemon/base/digests.h"
#include "policies/maio/base/parallel_for.h"

namespace ppc::maio {
namespace {

using Json = nlohmann::json;

constexpr uint64_t kEndBytes = 64 << 10;
constexpr uint64_t kMaxTableBytes = 4ull << 20;  // of a table of contents, in a fingerprint

// Enough to tell a format by.
constexpr size_t kSignatureBytes = 9;

// One of a file_kind.h's formats.  table_end: where the table of contents ends, by the file's
// beginning; nullptr: only reading it tells.
struct Parser {
  FileKind kind;
  bool (*is_it)(std::span<const uint8_t> head);
  bool (*read)(ModelSource*, uint64_t max_header_bytes, ModelFile*, std::string* error);
  uint64_t (*table_end)(std::span<const uint8_t> head);
};
constexpr Parser kParsers[] = {
    {FileKind::kSafetensors, HasSafetensorsHead, ReadSafetensors, SafetensorsTableEnd},
    {FileKind::kGguf, HasGgufHead, ReadGguf, nullptr},
};
static_assert(std::size(kParsers) == kFormats.size());

// nullptr: the beginning of a file of no such format.
const Parser* ParserOf(std::span<const uint8_t> head) {
  const auto* const parser =
      std::ranges::find_if(kParsers, [&](const Parser& one) { return one.is_it(head); });
  return parser == std::end(kParsers) ? nullptr : parser;
}

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

// Each read asks the store at least once, however much it is asked for.
constexpr uint64_t kTextChunkBytes = 1 << 20;

// A text file as characters, read a chunk at a time: the largest index has 9 MB.
class TextReader {
 public:
  TextReader(ModelSource* source, const ModelSource::Info& info) : source_(source), info_(info) {}

  // Also when it cannot be read.
  bool AtEnd() {
    if (at_ < chunk_.size()) return false;
    offset_ += chunk_.size();
    at_ = 0;
    chunk_.resize(std::min<uint64_t>(kTextChunkBytes, info_.size - offset_));
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

// Into the page cache, so that what reads it in order does not wait for one block after the other.
void ReadAhead(ModelSource* source, const ModelSource::Info& info) {
  ParallelFor(info.size / kEndBytes, [&](size_t i) {
    std::array<uint8_t, kEndBytes> buffer;
    (void)source->Read(info.path, i * kEndBytes, buffer.data(), buffer.size());
  });
}

}  // namespace

bool ReadText(ModelSource* source, const std::string& path, uint64_t most, std::string* out) {
  ModelSource::Info info;
  if (source->Stat(path, &info) != 0 || info.size > most) return false;
  out->resize(info.size);
  return source->Read(info.path, 0, out->data(), out->size()) == static_cast<int64_t>(info.size);
}

bool ReadIndex(ModelSource* source, const std::string& path, uint64_t max_bytes,
               std::vector<std::string>* out, std::string* error) {
  ModelSource::Info info;
  IndexHandler index;
  const bool is_there = source->Stat(path, &info) == 0 && info.size <= max_bytes;
  if (is_there) ReadAhead(source, info);
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
  out->layers = number("num_hidden_layers");
  for (const char* key : {"num_experts", "n_routed_experts", "num_local_experts"}) {
    if (out->experts == 0) out->experts = number(key);
  }
}

bool ReadTable(ModelSource* source, uint64_t max_header_bytes, ModelFile* file,
               std::string* error) {
  // Below links a file may have any name.
  std::array<uint8_t, kSignatureBytes> head{};
  const int64_t n = source->Read(file->info.path, 0, head.data(), head.size());
  const Parser* parser =
      ParserOf(std::span(head).first(static_cast<size_t>(std::max<int64_t>(n, 0))));
  if (parser == nullptr) {
    const FileKind named = KindOfPath(file->info.path);
    parser = std::ranges::find(kParsers, HasContents(named) ? named : FileKind::kSafetensors,
                               &Parser::kind);
  }
  return parser->read(source, max_header_bytes, file, error);
}

void ReadTablesAhead(ModelSource* source, std::span<const ModelSource::Info> files) {
  ParallelFor(files.size(), [&](size_t i) {
    std::array<uint8_t, kEndBytes> buffer;
    const std::string& path = files[i].path;
    if (source->Read(path, 0, buffer.data(), buffer.size()) < 12) return;
    const Parser* parser = ParserOf(buffer);
    const bool is_told = parser != nullptr && parser->table_end != nullptr;
    const uint64_t end = is_told
                             ? std::min({parser->table_end(buffer), files[i].size, kMaxTableBytes})
                             : files[i].size;
    // Of other files the end, which the fingerprint has.
    uint64_t at = is_told ? kEndBytes : std::max(kEndBytes, end - std::min(end, kEndBytes));
    for (; at < end; at += kEndBytes) {
      if (source->Read(path, at, buffer.data(), buffer.size()) <= 0) return;
    }
  });
}

Fingerprint FileFingerprint(ModelSource* source, const std::string& path, uint64_t size,
                            FileKind* kind) {
  std::vector<uint8_t> head(static_cast<size_t>(std::min<uint64_t>(kEndBytes, size)));
  int64_t n = source->Read(path, 0, head.data(), head.size());
  if (n < 0) return {};
  head.resize(static_cast<size_t>(n));
  const Parser* parser = ParserOf(head);
  if (kind != nullptr && *kind == FileKind::kOther) {
    // A blob of a hub cache has no telling name: a large tokenizer is JSON.
    const bool is_json = !head.empty() && head[0] == '{' && size <= kMaxTextBytes;
    const FileKind untabled = is_json ? FileKind::kSmall : FileKind::kOther;
    *kind = parser != nullptr ? parser->kind : untabled;
  }
  std::vector<uint8_t> rest;
  uint64_t from = head.size();
  uint64_t bytes = 0;
  if (parser != nullptr && parser->table_end != nullptr) {
    const uint64_t table = std::min({parser->table_end(head), size, kMaxTableBytes});
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

}  // namespace ppc::maio
