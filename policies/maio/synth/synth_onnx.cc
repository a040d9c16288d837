// SPDX-License-Identifier: Apache-2.0
//
// The external data of an ONNX model: the files beside it that hold its weights.
// A protobuf message is walked field by field through a small window; weights
// that it holds itself are skipped, not read.
#include <algorithm>
#include <array>
#include <unordered_set>

#include "policies/maio/synth/synth_files.h"

namespace ppc::maio {
namespace {

constexpr size_t kOnnxWindow = 64 << 10;
constexpr uint64_t kMostFields = 1u << 22;
constexpr size_t kMostName = 4095;

// Fields of onnx.proto.
enum Field : uint64_t {
  kModelGraph = 7,
  kGraphInitializer = 5,
  kTensorExternalData = 13,
  kEntryKey = 1,
  kEntryValue = 2,
};

class Message {
 public:
  Message(ModelSource* source, const ModelSource::Info& info, uint64_t most_read)
      : source_(source), info_(info), left_(most_read) {}

  bool ok() const { return is_ok_; }

  // Calls see(field, begin, end) for each length-delimited field of a message.
  template <typename See>
  void ForEach(uint64_t begin, uint64_t end, See see) {
    uint64_t at = begin;
    while (is_ok_ && at < end) {
      const uint64_t tag = Varint(&at, end);
      uint64_t bytes = 0;
      switch (tag & 7) {
        case 0:
          (void)Varint(&at, end);
          break;
        case 1:
          bytes = 8;
          break;
        case 5:
          bytes = 4;
          break;
        case 2:
          bytes = Varint(&at, end);
          break;
        default:
          is_ok_ = false;
      }
      if (bytes > end - std::min(at, end) || ++fields_ > kMostFields) is_ok_ = false;
      if (is_ok_ && (tag & 7) == 2) see(tag >> 3, at, at + bytes);
      at += bytes;
    }
  }

  std::string Text(uint64_t begin, uint64_t end) {
    std::string text;
    if (end - begin > kMostName) return text;
    for (uint64_t at = begin; is_ok_ && at < end; at++) text += static_cast<char>(Byte(at));
    return text;
  }

 private:
  uint64_t Varint(uint64_t* at, uint64_t end) {
    uint64_t value = 0;
    for (unsigned shift = 0; shift < 64; shift += 7) {
      if (*at >= end) break;
      const uint8_t byte = Byte((*at)++);
      value |= uint64_t{byte & 0x7fu} << shift;
      if (byte < 0x80) return value;
    }
    is_ok_ = false;
    return 0;
  }

  uint8_t Byte(uint64_t at) {
    if (at < window_begin_ || at >= window_begin_ + window_bytes_) Fill(at);
    return is_ok_ ? window_[at - window_begin_] : 0;
  }

  void Fill(uint64_t at) {
    const uint64_t bytes = std::min<uint64_t>({kOnnxWindow, info_.size - std::min(info_.size, at)});
    is_ok_ = is_ok_ && bytes != 0 && bytes <= left_;
    if (!is_ok_) return;
    left_ -= bytes;
    const int64_t n = source_->Read(info_.path, at, window_.data(), bytes);
    is_ok_ = n > 0;
    window_begin_ = at;
    window_bytes_ = is_ok_ ? static_cast<uint64_t>(n) : 0;
  }

  ModelSource* const source_;
  const ModelSource::Info& info_;
  uint64_t left_;  // to be read
  uint64_t fields_ = 0;
  bool is_ok_ = true;
  std::array<uint8_t, kOnnxWindow> window_;
  uint64_t window_begin_ = 0;
  uint64_t window_bytes_ = 0;
};

}  // namespace

bool ReadExternalData(ModelSource* source, const ModelSource::Info& info, uint64_t most_read,
                      std::vector<std::string>* names) {
  Message message(source, info, most_read);
  std::unordered_set<std::string> known;
  const auto entry = [&](uint64_t begin, uint64_t end) {
    std::string key;
    std::string value;
    message.ForEach(begin, end, [&](uint64_t field, uint64_t first, uint64_t last) {
      if (field == kEntryKey) key = message.Text(first, last);
      if (field == kEntryValue) value = message.Text(first, last);
    });
    const bool is_file = key == "location" && ValidPath(value) && names->size() < kMaxFiles;
    if (is_file && known.insert(value).second) names->push_back(value);
  };
  message.ForEach(0, info.size, [&](uint64_t graph, uint64_t graph_at, uint64_t graph_end) {
    if (graph != kModelGraph) return;
    message.ForEach(graph_at, graph_end, [&](uint64_t tensor, uint64_t at, uint64_t end) {
      if (tensor != kGraphInitializer) return;
      message.ForEach(at, end, [&](uint64_t field, uint64_t first, uint64_t last) {
        if (field == kTensorExternalData) entry(first, last);
      });
    });
  });
  return message.ok();
}

}  // namespace ppc::maio
