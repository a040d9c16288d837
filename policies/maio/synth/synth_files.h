// SPDX-License-Identifier: Apache-2.0
//
// Which files are a model, and what its small files say.
#ifndef POLICIES_MAIO_SYNTH_SYNTH_FILES_H_
#define POLICIES_MAIO_SYNTH_SYNTH_FILES_H_

#include <span>
#include <string>
#include <vector>

#include "policies/maio/synth/synth_header.h"
#include "policies/maio/synth/synth_slice.h"

namespace ppc::maio {

inline constexpr uint64_t kMaxConfigBytes = 1 << 20;

struct FoundFile {
  ModelSource::Info info;
  bool is_plain = false;  // it has no table of contents: each reader reads all of it
  int32_t rank = -1;      // the only worker that reads it, -1: none alone
};

struct FoundFiles {
  std::vector<FoundFile> models;  // in the order in which loaders open them
  std::vector<ModelSource::Info> small;
  ModelShape shape;
};

// Weights are, of the file `only`: what its index lists, else its set (x-00001-of-00003), an ONNX
// model's external data, or a pipeline's components.  Without it: a pipeline's components
// (model_index.json), what an index lists, or the only set there is.  Several sets without an index
// are several models: an error.
bool FindFiles(ModelSource* source, const std::string& dir, const SynthOptions& options,
               FoundFiles* out, std::string* error);

// The table of contents of a safetensors or GGUF file, by its name and its content.
bool ReadTable(ModelSource* source, uint64_t max_header_bytes, ModelFile* file, std::string* error);

// Reads the tables of contents of many files, several at once, so that they are in the page cache
// when each is read in its turn: over a slow file system one after the other takes too long.
void ReadTablesAhead(ModelSource* source, std::span<const ModelSource::Info> files);

// Heads and layers of config.json; leaves *out alone when there is none.
void ReadShape(ModelSource* source, const std::string& path, ModelShape* out);

// The files, relative to the model's directory, that an ONNX model keeps its weights in.  False:
// damaged, or more than most_read bytes of it would have to be read.
bool ReadExternalData(ModelSource* source, const ModelSource::Info& info, uint64_t most_read,
                      std::vector<std::string>* names);

// All of a small file; false: it is larger, or cannot be read.
bool ReadText(ModelSource* source, const std::string& path, uint64_t most, std::string* out);

// The files that an index names, sorted.
bool ReadIndex(ModelSource* source, const std::string& path, uint64_t max_bytes,
               std::vector<std::string>* out, std::string* error);

}  // namespace ppc::maio

#endif  // POLICIES_MAIO_SYNTH_SYNTH_FILES_H_
