// SPDX-License-Identifier: Apache-2.0
// The safetensors file format: the header of one shard, read, checked and written.
// Threads: plain values and free functions, no shared state.
#ifndef PPC_TOOLS_MODEL_COMMON_SAFETENSORS_H_
#define PPC_TOOLS_MODEL_COMMON_SAFETENSORS_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "daemon/base/result.h"

namespace ppc::bench {

// The format's own limit on the JSON header, 100 MB.
inline constexpr uint64_t kMaxHeaderBytes = 100'000'000;

struct Tensor {
  std::string name;
  std::string dtype;            // "BF16", "F32", ...
  std::vector<uint64_t> shape;  // empty: a scalar
  uint64_t begin = 0;           // bytes from the start of the data section
  uint64_t end = 0;

  uint64_t bytes() const { return end - begin; }
};

// One shard: tensors in file order (by begin); data starts at data_offset.
struct ShardHeader {
  std::vector<Tensor> tensors;
  uint64_t data_offset = 0;  // 8 + length of the JSON
  uint64_t file_bytes = 0;   // data_offset + the last tensor's end
};

// Bits of one element, or 0 when the format does not know the dtype.
uint32_t DtypeBits(std::string_view dtype);

// Bytes of a tensor of this dtype and shape; an error when unknown or over 2^62.
Result<uint64_t> TensorBytes(std::string_view dtype, const std::vector<uint64_t>& shape);

// Reads the 8-byte length in front of a file of file_bytes.  what names the file in errors.
Result<uint64_t> ParseHeaderLength(const uint8_t* first8, uint64_t file_bytes,
                                   const std::string& what);

// Parses and checks the JSON: known dtypes, sizes that follow from shapes, no hole, no overlap,
// and a file exactly as long as its tensors need.
Result<ShardHeader> ParseHeader(std::string_view json, uint64_t file_bytes,
                                const std::string& what);

// Puts tensors in the order the reference writer uses: wider dtype first, then name by bytes.
void SortTensors(std::vector<Tensor>* tensors);

// Assigns begin and end in the order given.  dtype and shape must be valid.
void AssignOffsets(std::vector<Tensor>* tensors);

// The 8-byte length and the JSON of a shard whose offsets are assigned.  The reference writer pads
// the JSON to a multiple of 8 bytes, others do not.
std::string EncodeHeader(const std::vector<Tensor>& tensors, bool is_padded = true);

}  // namespace ppc::bench

#endif  // PPC_TOOLS_MODEL_COMMON_SAFETENSORS_H_
