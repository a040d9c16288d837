// SPDX-License-Identifier: Apache-2.0
//
// The header of a GGUF file (versions 2 and 3): key-value pairs, of which only
// the alignment matters here, and the tensors.  Read through a small window:
// vocabularies are skipped, not kept.
#include <algorithm>
#include <cstring>

#include "policies/maio/synth/synth_header.h"

namespace ppc::maio {
namespace {

constexpr size_t kWindow = 256 << 10;
constexpr uint64_t kMaxPairs = 1u << 20;
constexpr int kMaxNesting = 4;

enum Type : uint32_t { kString = 8, kArray = 9, kUint32 = 4 };
// Bytes of the types 0 to 12; 0: no fixed size.
constexpr uint64_t kTypeBytes[] = {1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8};

// Reads forward; stays failed after the first read beyond the limit.
class Cursor {
 public:
  Cursor(ModelSource* source, const std::string& path, uint64_t limit)
      : source_(source), path_(path), limit_(limit) {}

  uint64_t Number(size_t bytes) {
    uint8_t raw[8] = {};
    Copy(raw, bytes);
    uint64_t value = 0;
    for (size_t i = bytes; i-- > 0;) value = value << 8 | raw[i];
    return value;
  }
  std::string String() {
    uint64_t n = Number(8);
    if (!ok_ || n > 65535) {
      ok_ = false;
      return "";
    }
    std::string text(n, '\0');
    Copy(text.data(), n);
    return text;
  }
  void Skip(uint64_t bytes) {
    if (!ok_ || bytes > limit_ - at_) {
      ok_ = false;
      return;
    }
    at_ += bytes;
  }
  void SkipValue(uint32_t type, int nesting) {
    if (type == kString) {
      Skip(Number(8));
    } else if (type == kArray) {
      uint32_t of = static_cast<uint32_t>(Number(4));
      uint64_t n = Number(8);
      if (nesting == 0) ok_ = false;
      if (of < std::size(kTypeBytes) && kTypeBytes[of] != 0) {
        if (n > limit_ / kTypeBytes[of]) ok_ = false;
        Skip(n * kTypeBytes[of]);
        return;
      }
      for (uint64_t i = 0; ok_ && i < n; i++) SkipValue(of, nesting - 1);
    } else if (type < std::size(kTypeBytes)) {
      Skip(kTypeBytes[type]);
    } else {
      ok_ = false;
    }
  }
  bool ok() const { return ok_; }
  uint64_t at() const { return at_; }

 private:
  void Copy(void* out, size_t bytes) {
    if (!ok_ || bytes > limit_ - at_) {
      ok_ = false;
      return;
    }
    if (at_ < start_ || at_ + bytes > start_ + window_.size()) {
      window_.resize(std::max<uint64_t>(bytes, std::min<uint64_t>(kWindow, limit_ - at_)));
      start_ = at_;
      int64_t n = source_->Read(path_, at_, window_.data(), window_.size());
      window_.resize(n < 0 ? 0 : static_cast<size_t>(n));
      if (window_.size() < bytes) {
        ok_ = false;
        return;
      }
    }
    std::memcpy(out, window_.data() + (at_ - start_), bytes);
    at_ += bytes;
  }

  ModelSource* source_;
  const std::string& path_;
  uint64_t limit_;
  uint64_t at_ = 0;
  uint64_t start_ = 0;
  std::vector<uint8_t> window_;
  bool ok_ = true;
};

}  // namespace

bool HasGgufHead(std::span<const uint8_t> head) {
  return head.size() >= 4 && std::memcmp(head.data(), "GGUF", 4) == 0;
}

bool ReadGguf(ModelSource* source, uint64_t max_header_bytes, ModelFile* file, std::string* error) {
  const std::string& path = file->info.path;
  auto fail = [&](const std::string& why) {
    *error = path + ": " + why;
    return false;
  };
  Cursor in(source, path, std::min(file->info.size, max_header_bytes));
  if (in.Number(4) != 0x46554747) return fail("not a GGUF file");
  uint64_t version = in.Number(4);
  if (in.ok() && version != 2 && version != 3)
    return fail("GGUF version " + std::to_string(version) + " is not known; 2 and 3 are");
  uint64_t tensors = in.Number(8);
  uint64_t pairs = in.Number(8);
  if (tensors > kMaxTensors || pairs > kMaxPairs) return fail("has too many tensors or keys");
  uint64_t alignment = 32;
  for (uint64_t i = 0; in.ok() && i < pairs; i++) {
    std::string key = in.String();
    uint32_t type = static_cast<uint32_t>(in.Number(4));
    if (key == "general.alignment" && type == kUint32) {
      alignment = in.Number(4);
    } else {
      in.SkipValue(type, kMaxNesting);
    }
  }
  if (alignment == 0 || alignment > (1u << 20) || alignment % 8 != 0)
    return fail("an alignment of " + std::to_string(alignment) + " bytes is not possible");
  for (uint64_t i = 0; in.ok() && i < tensors; i++) {
    SynthTensor tensor;
    tensor.name = in.String();
    uint64_t dims = in.Number(4);
    if (dims > kMaxDims) return fail("tensor '" + Shown(tensor.name) + "' has too many dimensions");
    for (uint64_t d = 0; d < dims; d++) tensor.shape.push_back(in.Number(8));
    std::reverse(tensor.shape.begin(), tensor.shape.end());
    in.Number(4);  // element type: sizes follow from the offsets
    tensor.begin = in.Number(8);
    file->tensors.push_back(std::move(tensor));
  }
  if (!in.ok()) return fail("truncated or damaged header; download it again");
  file->kind = FileKind::kGguf;
  file->data_offset = (in.at() + alignment - 1) / alignment * alignment;
  auto& list = file->tensors;
  std::sort(list.begin(), list.end(),
            [](const SynthTensor& a, const SynthTensor& b) { return a.begin < b.begin; });
  uint64_t room = file->info.size - std::min(file->info.size, file->data_offset);
  for (size_t i = 0; i < list.size(); i++) {
    if (list[i].begin > room || (i > 0 && list[i].begin == list[i - 1].begin))
      return fail("truncated: tensor '" + Shown(list[i].name) + "' begins at byte " +
                  std::to_string(list[i].begin) + " of the data, the file has " +
                  std::to_string(room) + " bytes of it or two begin there; download it again");
    list[i].end = file->data_offset + (i + 1 < list.size() ? list[i + 1].begin : room);
  }
  for (SynthTensor& tensor : list) tensor.begin += file->data_offset;
  return CheckTensors(file, error);
}

}  // namespace ppc::maio
