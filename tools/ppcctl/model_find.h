// SPDX-License-Identifier: Apache-2.0
// Owns finding the model of a command by its words: model files, directories that hold some, and
// names of Hugging Face repositories in the hub cache of this machine.
#ifndef PPC_TOOLS_PPCCTL_MODEL_FIND_H_
#define PPC_TOOLS_PPCCTL_MODEL_FIND_H_

#include <optional>
#include <string>
#include <vector>

namespace ppc::ctl {

struct FoundModel {
  std::string path;       // real path: a file, or the directory (a hub's snapshot) with the files
  std::string directory;  // to be registered: all files of the model lie below it

  bool operator==(const FoundModel&) const = default;
};

// By its name: *.safetensors, *.gguf, *.bin, *.pt, *.pth, *.onnx, *.tensors; or a blob of a hub
// cache.
bool IsModelFile(const std::string& path);

// The model at a path: a file, a directory that itself holds model files, or a hub's repository.
std::optional<FoundModel> ModelAt(const std::string& path);

// The model of a hub cache's directory models--ORG--NAME at a revision ("" = main).
std::optional<FoundModel> ModelInHub(const std::string& directory, const std::string& revision);

// "models--ORG--NAME" with all before it, of a path in a hub cache; "" = it is in none.
std::string HubDirectoryOf(const std::string& path);

// $HF_HUB_CACHE, else $HF_HOME/hub, else ~/.cache/huggingface/hub.
std::string HubCacheFromEnvironment();

// Options that name the model first (--model, -m, ...), then any other word.
std::optional<FoundModel> FindModel(const std::vector<std::string>& words,
                                    const std::string& hub_cache);

}  // namespace ppc::ctl

#endif  // PPC_TOOLS_PPCCTL_MODEL_FIND_H_
