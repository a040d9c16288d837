// SPDX-License-Identifier: Apache-2.0
//
// The header of a safetensors file.  Parsed event by event: no document is
// built, and what does not belong ends the parse where it stands.
#include <algorithm>
#include <cstring>
#include <limits>
#include <nlohmann/json.hpp>
#include <set>
#include <string_view>

#include "policies/maio/synth/synth_header.h"

namespace ppc::maio {
namespace {

using Json = nlohmann::json;

uint64_t BitsOf(std::string_view dtype) {
  if (dtype == "F4") return 4;
  if (dtype == "F6_E2M3" || dtype == "F6_E3M2") return 6;
  for (const char* name : {"BOOL", "U8", "I8", "F8_E5M2", "F8_E4M3", "F8_E8M0"})
    if (dtype == name) return 8;
  for (const char* name : {"U16", "I16", "F16", "BF16"})
    if (dtype == name) return 16;
  for (const char* name : {"U32", "I32", "F32"})
    if (dtype == name) return 32;
  for (const char* name : {"U64", "I64", "F64", "C64"})
    if (dtype == name) return 64;
  return 0;
}

// Where the parse stands: {"name": {"dtype": ..., "shape": [...], "data_offsets": [...]}, ...}.
class HeaderHandler : public nlohmann::json_sax<Json> {
 public:
  explicit HeaderHandler(std::vector<SynthTensor>* out) : out_(out) {}

  const std::string& problem() const { return problem_; }

  bool start_object(std::size_t) override {
    depth_++;
    if (in_array_ || depth_ > 2) return Fail(Where() + "is nested too deeply");
    if (depth_ == 1) return true;
    is_metadata_ = name_ == "__metadata__";
    tensor_ = {};
    tensor_.name = name_;
    offsets_.clear();
    dtype_.clear();
    has_shape_ = false;
    return true;
  }
  bool end_object() override {
    depth_--;
    return depth_ == 0 || is_metadata_ || EndTensor();
  }
  bool key(std::string& text) override {
    (depth_ == 1 ? name_ : field_) = std::move(text);
    return true;
  }
  bool start_array(std::size_t) override {
    if (depth_ == 0) return Fail("is not a JSON object");
    if (in_array_) return Fail(Where() + "is nested too deeply");
    if (depth_ != 2 || is_metadata_) return Fail(Where() + "is not an object");
    in_array_ = true;
    has_shape_ |= field_ == "shape";
    return true;
  }
  bool end_array() override {
    in_array_ = false;
    return true;
  }
  bool number_unsigned(uint64_t value) override {
    if (!in_array_) return Other();
    std::vector<uint64_t>& list = field_ == "shape" ? tensor_.shape : offsets_;
    if (field_ != "shape" && field_ != "data_offsets") return true;
    if (list.size() >= kMaxDims) return Fail(Where() + "has too many numbers in " + field_);
    list.push_back(value);
    return true;
  }
  bool number_integer(int64_t value) override {
    return Fail(Where() + "has a negative number, " + std::to_string(value));
  }
  bool number_float(double, const std::string& text) override {
    return Fail(Where() + "has " + text + " where a whole number belongs");
  }
  bool string(std::string& text) override {
    if (in_array_) return Fail(Where() + "has text where a number belongs");
    if (depth_ == 2 && field_ == "dtype") dtype_ = text;
    return depth_ == 2 || Other();
  }
  bool null() override { return Other(); }
  bool boolean(bool) override { return Other(); }
  bool binary(binary_t&) override { return Other(); }
  bool parse_error(std::size_t position, const std::string&,
                   const nlohmann::detail::exception&) override {
    return Fail("is not JSON at byte " + std::to_string(position));
  }

 private:
  std::string Where() const { return name_.empty() ? "" : "tensor '" + Shown(name_) + "' "; }
  bool Fail(const std::string& why) {
    if (problem_.empty()) problem_ = why;
    return false;
  }
  bool Other() {
    if (depth_ == 0) return Fail("is not a JSON object");
    return (depth_ == 2 && !in_array_) || Fail(Where() + "is not an object");
  }

  bool EndTensor() {
    if (dtype_.empty() || !has_shape_ || offsets_.size() != 2)
      return Fail(Where() + "lacks dtype, shape or data_offsets");
    if (offsets_[0] > offsets_[1]) return Fail(Where() + "ends before it begins");
    if (uint64_t bits = BitsOf(dtype_); bits != 0) {
      for (uint64_t dim : tensor_.shape) {
        if (__builtin_mul_overflow(bits, dim, &bits)) return Fail(Where() + "has a huge shape");
      }
      if (bits % 8 != 0 || bits / 8 != offsets_[1] - offsets_[0])
        return Fail(Where() + "spans " + std::to_string(offsets_[1] - offsets_[0]) +
                    " bytes, its shape needs " + std::to_string(bits / 8));
    }
    if (out_->size() >= kMaxTensors) return Fail("has too many tensors");
    tensor_.begin = offsets_[0];
    tensor_.end = offsets_[1];
    out_->push_back(std::move(tensor_));
    return true;
  }

  std::vector<SynthTensor>* out_;
  std::string problem_;
  size_t depth_ = 0;
  bool in_array_ = false;
  bool is_metadata_ = false;
  bool has_shape_ = false;
  std::string name_;
  std::string field_;
  std::string dtype_;
  SynthTensor tensor_;
  std::vector<uint64_t> offsets_;
};

}  // namespace

std::string Shown(const std::string& name) {
  std::string out = name.substr(0, 80);
  for (char& c : out) {
    if (c < ' ' || c > '~') c = '?';
  }
  return out;
}

bool CheckTensors(ModelFile* file, std::string* error) {
  auto& tensors = file->tensors;
  std::sort(tensors.begin(), tensors.end(), [](const SynthTensor& a, const SynthTensor& b) {
    return a.begin != b.begin ? a.begin < b.begin : a.end < b.end;
  });
  std::set<std::string_view> names;
  const SynthTensor* before = nullptr;
  for (const SynthTensor& tensor : tensors) {
    if (!names.insert(tensor.name).second) {
      *error = file->info.path + ": tensor '" + Shown(tensor.name) + "' is listed twice";
      return false;
    }
    if (before != nullptr && tensor.begin < before->end) {
      *error = file->info.path + ": tensors '" + Shown(before->name) + "' and '" +
               Shown(tensor.name) + "' overlap; the file is damaged";
      return false;
    }
    if (tensor.end > file->info.size) {
      *error = file->info.path + ": truncated: tensor '" + Shown(tensor.name) + "' ends at byte " +
               std::to_string(tensor.end) + ", the file has " + std::to_string(file->info.size) +
               "; download it again";
      return false;
    }
    before = &tensor;
  }
  return true;
}

bool HasSafetensorsHead(std::span<const uint8_t> head) {
  return head.size() > 8 && head[8] == '{' && std::memcmp(head.data() + 4, "\0\0\0\0", 4) == 0;
}

uint64_t SafetensorsTableEnd(std::span<const uint8_t> head) {
  uint64_t length = 0;
  for (size_t i = 4; i-- > 0;) length = length << 8 | head[i];
  return 8 + length;
}

bool ReadSafetensors(ModelSource* source, uint64_t max_header_bytes, ModelFile* file,
                     std::string* error) {
  const std::string& path = file->info.path;
  uint8_t first[8] = {};
  if (file->info.size < 8 || source->Read(path, 0, first, 8) != 8) {
    *error = path + ": shorter than 8 bytes; not a safetensors file?";
    return false;
  }
  uint64_t length = 0;
  for (int i = 7; i >= 0; i--) length = length << 8 | first[i];
  if (length > max_header_bytes) {
    *error = path + ": a header of " + std::to_string(length) + " bytes is over the limit of " +
             std::to_string(max_header_bytes) + "; not a safetensors file?";
    return false;
  }
  if (length < 2 || length > file->info.size - 8) {
    *error = path + ": truncated: the header needs " + std::to_string(length) +
             " bytes, the file has " + std::to_string(file->info.size) + "; download it again";
    return false;
  }
  std::string text(length, '\0');
  if (source->Read(path, 8, text.data(), length) != static_cast<int64_t>(length)) {
    *error = path + ": the header cannot be read";
    return false;
  }
  HeaderHandler handler(&file->tensors);
  if (!Json::sax_parse(text, &handler)) {
    *error = path + ": the header " + handler.problem();
    return false;
  }
  file->kind = FileKind::kSafetensors;
  file->data_offset = 8 + length;
  for (SynthTensor& tensor : file->tensors) {
    if (tensor.end > std::numeric_limits<uint64_t>::max() - file->data_offset) {
      *error = path + ": truncated: tensor '" + Shown(tensor.name) + "' ends beyond any file";
      return false;
    }
    tensor.begin += file->data_offset;
    tensor.end += file->data_offset;
  }
  return CheckTensors(file, error);
}

}  // namespace ppc::maio
