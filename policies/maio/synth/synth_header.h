// SPDX-License-Identifier: Apache-2.0
//
// Tables of contents of model files: which bytes are which tensor.
#ifndef POLICIES_MAIO_SYNTH_SYNTH_HEADER_H_
#define POLICIES_MAIO_SYNTH_SYNTH_HEADER_H_

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "policies/maio/synth/synth.h"

namespace ppc::maio {

inline constexpr size_t kMaxTensors = 1u << 20;  // of one file
inline constexpr size_t kMaxDims = 8;

struct SynthTensor {
  std::string name;
  std::vector<uint64_t> shape;  // outermost first
  uint64_t begin = 0;           // in the file
  uint64_t end = 0;
};

struct ModelFile {
  ModelSource::Info info;
  FileKind kind = FileKind::kOther;  // kOther: it has no table of contents
  int32_t rank = -1;                 // the only worker that reads it, -1: none alone
  uint64_t data_offset = 0;          // the table of contents ends here
  std::vector<SynthTensor> tensors;  // by begin
};

// Both check everything they tell; false with *error on what no loader would accept.
bool ReadSafetensors(ModelSource* source, uint64_t max_header_bytes, ModelFile* file,
                     std::string* error);
bool ReadGguf(ModelSource* source, uint64_t max_header_bytes, ModelFile* file, std::string* error);
// Whether a file that begins like this is one, whatever its name.
bool HasSafetensorsHead(std::span<const uint8_t> head);
bool HasGgufHead(std::span<const uint8_t> head);
// The end of the table of contents of a safetensors file that begins like this.
uint64_t SafetensorsTableEnd(std::span<const uint8_t> head);

// A name out of a file, fit for one line of text.
std::string Shown(const std::string& name);

// Sorts the tensors; false when two overlap or one ends beyond the file.
bool CheckTensors(ModelFile* file, std::string* error);

}  // namespace ppc::maio

#endif  // POLICIES_MAIO_SYNTH_SYNTH_HEADER_H_
