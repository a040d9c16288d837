// SPDX-License-Identifier: Apache-2.0
//
// Which files of a directory are the model, and what its small files say.
#ifndef POLICIES_MAIO_SYNTH_SYNTH_FILES_H_
#define POLICIES_MAIO_SYNTH_SYNTH_FILES_H_

#include <string>
#include <vector>

#include "policies/maio/synth/synth_header.h"
#include "policies/maio/synth/synth_slice.h"

namespace ppc::maio {

struct FoundFiles {
  std::vector<ModelSource::Info> models;  // in the order in which loaders open them
  std::vector<ModelSource::Info> small;
  ModelShape shape;
};

// Weights are the set of the file `only`, if that is there, or what the index names, or all
// *.safetensors without an index, or all *.gguf.
bool FindFiles(ModelSource* source, const std::string& dir, const std::string& only,
               uint64_t max_index_bytes, FoundFiles* out, std::string* error);

// The table of contents of a safetensors or GGUF file, by its name.
bool ReadTable(ModelSource* source, uint64_t max_header_bytes, ModelFile* file, std::string* error);

// Heads of config.json; leaves *out alone when there is none.
void ReadShape(ModelSource* source, const std::string& path, ModelShape* out);

}  // namespace ppc::maio

#endif  // POLICIES_MAIO_SYNTH_SYNTH_FILES_H_
