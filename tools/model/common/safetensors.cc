// SPDX-License-Identifier: Apache-2.0
// The safetensors file format: the header of one shard, read, checked and written.
// Threads: free functions without state.
#include "tools/model/common/safetensors.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <nlohmann/json.hpp>
#include <tuple>
#include <utility>

namespace ppc::bench {
namespace {

using nlohmann::json;

struct Dtype {
  std::string_view name;
  uint32_t bits;
};

constexpr std::array<Dtype, 19> kDtypes{{{"F4", 4},
                                         {"F6_E2M3", 6},
                                         {"F6_E3M2", 6},
                                         {"BOOL", 8},
                                         {"U8", 8},
                                         {"I8", 8},
                                         {"F8_E5M2", 8},
                                         {"F8_E4M3", 8},
                                         {"F8_E8M0", 8},
                                         {"U16", 16},
                                         {"I16", 16},
                                         {"F16", 16},
                                         {"BF16", 16},
                                         {"U32", 32},
                                         {"I32", 32},
                                         {"F32", 32},
                                         {"I64", 64},
                                         {"U64", 64},
                                         {"F64", 64}}};

Error Bad(const std::string& what, const std::string& why) {
  return Error{EBADMSG, what + ": " + why};
}

// An array of non-negative integers; false for anything else.
bool ReadNumbers(const json& value, std::vector<uint64_t>* out) {
  if (!value.is_array()) return false;
  for (const json& item : value) {
    if (!item.is_number_unsigned()) return false;
    out->push_back(item.get<uint64_t>());
  }
  return true;
}

Result<Tensor> ParseTensor(const std::string& name, const json& entry, const std::string& what) {
  Tensor tensor;
  tensor.name = name;
  std::vector<uint64_t> offsets;
  const std::string prefix = "tensor '" + name + "' ";
  if (!entry.is_object() || !entry.contains("dtype") || !entry.contains("shape") ||
      !entry.contains("data_offsets") || !entry["dtype"].is_string())
    return Bad(what, prefix + "lacks dtype, shape or data_offsets");
  tensor.dtype = entry["dtype"].get<std::string>();
  if (!ReadNumbers(entry["shape"], &tensor.shape))
    return Bad(what, prefix + "has a shape that is not a list of numbers");
  if (!ReadNumbers(entry["data_offsets"], &offsets) || offsets.size() != 2 ||
      offsets[0] > offsets[1])
    return Bad(what, prefix + "has data_offsets that are not [begin, end]");
  tensor.begin = offsets[0];
  tensor.end = offsets[1];
  Result<uint64_t> bytes = TensorBytes(tensor.dtype, tensor.shape);
  if (!bytes.ok()) return Bad(what, prefix + bytes.error().message);
  if (bytes.value() != tensor.bytes())
    return Bad(what, prefix + "spans " + std::to_string(tensor.bytes()) +
                         " bytes, its shape needs " + std::to_string(bytes.value()));
  return tensor;
}

std::string EncodeTensor(const Tensor& tensor) {
  std::string out = json(tensor.name).dump() + ":{\"dtype\":\"" + tensor.dtype + "\",\"shape\":[";
  for (size_t i = 0; i < tensor.shape.size(); ++i)
    out += (i == 0 ? "" : ",") + std::to_string(tensor.shape[i]);
  return out + "],\"data_offsets\":[" + std::to_string(tensor.begin) + "," +
         std::to_string(tensor.end) + "]}";
}

}  // namespace

uint32_t DtypeBits(std::string_view dtype) {
  for (const Dtype& known : kDtypes)
    if (known.name == dtype) return known.bits;
  return 0;
}

Result<uint64_t> TensorBytes(std::string_view dtype, const std::vector<uint64_t>& shape) {
  uint64_t bits = DtypeBits(dtype);
  if (bits == 0) return Error{EBADMSG, "has unknown dtype '" + std::string(dtype) + "'"};
  for (uint64_t dim : shape)
    if (__builtin_mul_overflow(bits, dim, &bits) || bits > (1ULL << 62))
      return Error{EBADMSG, "has a shape that overflows"};
  if (bits % 8 != 0) return Error{EBADMSG, "does not end on a byte"};
  return bits / 8;
}

Result<uint64_t> ParseHeaderLength(const uint8_t* first8, uint64_t file_bytes,
                                   const std::string& what) {
  uint64_t length = 0;
  for (int i = 7; i >= 0; --i) length = length << 8 | first8[i];
  if (length > kMaxHeaderBytes)
    return Bad(what, "header length " + std::to_string(length) +
                         " is over the format's 100 MB; not a safetensors file?");
  if (length < 2) return Bad(what, "header length " + std::to_string(length) + " is too small");
  if (length > file_bytes - 8)
    return Bad(what, "truncated: the header needs " + std::to_string(length) +
                         " bytes, the file has " + std::to_string(file_bytes) +
                         "; download it again");
  return length;
}

Result<ShardHeader> ParseHeader(std::string_view text, uint64_t file_bytes,
                                const std::string& what) {
  const json root = json::parse(text.begin(), text.end(), nullptr, /*allow_exceptions=*/false);
  if (!root.is_object()) return Bad(what, "the header is not a JSON object");
  ShardHeader header;
  header.data_offset = 8 + text.size();
  header.tensors.reserve(root.size());
  for (const auto& [name, entry] : root.items()) {
    if (name == "__metadata__") continue;
    Result<Tensor> tensor = ParseTensor(name, entry, what);
    if (!tensor.ok()) return tensor.error();
    header.tensors.push_back(std::move(tensor.value()));
  }
  std::sort(header.tensors.begin(), header.tensors.end(), [](const Tensor& a, const Tensor& b) {
    return std::tie(a.begin, a.end, a.name) < std::tie(b.begin, b.end, b.name);
  });
  uint64_t position = 0;
  for (const Tensor& tensor : header.tensors) {
    if (tensor.begin != position)
      return Bad(what, "tensor '" + tensor.name + "' begins at " + std::to_string(tensor.begin) +
                           (tensor.begin < position ? ", inside" : ", beyond") +
                           " the one before it, which ends at " + std::to_string(position));
    position = tensor.end;
  }
  header.file_bytes = header.data_offset + position;
  if (file_bytes < header.file_bytes)
    return Bad(what, "truncated: the tensors need " + std::to_string(header.file_bytes) +
                         " bytes, the file has " + std::to_string(file_bytes) +
                         "; download it again");
  if (file_bytes > header.file_bytes)
    return Bad(what, std::to_string(file_bytes - header.file_bytes) +
                         " bytes follow the last tensor; the file is damaged");
  return header;
}

void SortTensors(std::vector<Tensor>* tensors) {
  std::sort(tensors->begin(), tensors->end(), [](const Tensor& a, const Tensor& b) {
    const uint32_t a_bits = DtypeBits(a.dtype);
    const uint32_t b_bits = DtypeBits(b.dtype);
    return a_bits != b_bits ? a_bits > b_bits : a.name < b.name;
  });
}

void AssignOffsets(std::vector<Tensor>* tensors) {
  uint64_t position = 0;
  for (Tensor& tensor : *tensors) {
    const Result<uint64_t> bytes = TensorBytes(tensor.dtype, tensor.shape);
    tensor.begin = position;
    position += bytes.ok() ? bytes.value() : 0;
    tensor.end = position;
  }
}

std::string EncodeHeader(const std::vector<Tensor>& tensors, bool is_padded) {
  std::string text = "{\"__metadata__\":{\"format\":\"pt\"}";
  for (const Tensor& tensor : tensors) text += "," + EncodeTensor(tensor);
  text += "}";
  if (is_padded) text.resize((text.size() + 7) / 8 * 8, ' ');
  std::string out(8, '\0');
  for (int i = 0; i < 8; ++i) out[i] = static_cast<char>(text.size() >> (8 * i) & 0xff);
  return out + text;
}

}  // namespace ppc::bench
