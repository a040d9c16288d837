// SPDX-License-Identifier: Apache-2.0
#include "tools/ppcctl/model_service.h"

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <initializer_list>
#include <string_view>
#include <system_error>

#include "daemon/base/digests.h"
#include "daemon/base/files.h"
#include "daemon/base/json.h"
#include "daemon/base/text.h"
#include "tools/ppcctl/command_words.h"
#include "tools/ppcctl/model_find.h"

namespace ppc::ctl {
namespace {

namespace fs = std::filesystem;

constexpr size_t kIdentityDigits = 16;
// More than the index of any model; what is beyond changes with the sizes.
constexpr size_t kMaxIndexBytes = 64 << 20;

void AddNumber(Json& params, const char* key, const std::vector<std::string>& words,
               std::initializer_list<std::string_view> options) {
  const std::string text = OptionValue(words, options).value_or("");
  const uint32_t number = WholeNumber<uint32_t>(text).value_or(0);
  if (number > 0) params[key] = number;
}

// Adds a member of an option whose value is a JSON object.
void AddMember(Json& params, const char* key, const std::vector<std::string>& words,
               std::string_view option, const char* member) {
  const std::string text = OptionValue(words, {option}).value_or("");
  const Result<Json> json = ParseJsonObject(text, "the option");
  if (!json) return;
  const std::string value = JsonText(*json, member);
  if (!value.empty()) params[key] = value;
}

void AddText(Json& params, const char* key, const std::vector<std::string>& words,
             std::initializer_list<std::string_view> options) {
  if (const auto text = OptionValue(words, options)) params[key] = *text;
}

std::string DescribeFile(const fs::path& file) {
  std::error_code error;
  const uintmax_t bytes = fs::file_size(file, error);
  if (error) return "";
  return file.filename().string() + " " + std::to_string(bytes) + "\n";
}

bool IsConfiguration(const std::string& name) {
  return name == "config.json" || name == "model_index.json" || name.ends_with(".index.json");
}

}  // namespace

std::string ModelIdentity(const std::string& model) {
  std::error_code error;
  std::vector<std::string> lines;
  if (!fs::is_directory(model, error)) lines.push_back(DescribeFile(model));
  for (fs::directory_iterator entry(model, error); !error && entry != fs::directory_iterator();
       entry.increment(error)) {
    const std::string name = entry->path().filename();
    if (IsModelFile(name)) lines.push_back(DescribeFile(entry->path()));
    if (!IsConfiguration(name)) continue;
    const Result<std::string> text = ReadFile(entry->path(), kMaxIndexBytes);
    if (text) lines.push_back(name + " " + Sha256Hex(*text) + "\n");
  }
  std::sort(lines.begin(), lines.end());
  std::string all;
  for (const std::string& line : lines) all += line;
  return all.empty() ? "" : Sha256Hex(all).substr(0, kIdentityDigits);
}

Json ServiceParams(const std::string& model, const std::vector<std::string>& words) {
  Json params{{"model", model}, {"program", ProgramOf(words)}};
  if (const std::string identity = ModelIdentity(model); !identity.empty()) {
    params["identity"] = identity;
  }
  std::error_code error;
  // Where the policy finds the headers.
  if (fs::is_regular_file(model, error)) params["model_path"] = fs::path(model).parent_path();
  AddNumber(params, "tp", words,
            {"--tensor-parallel-size", "-tp", "--tp", "--tp-size", "--tensor_parallel_size",
             "--num-shard"});
  AddNumber(params, "pp", words, {"--pipeline-parallel-size", "-pp", "--pp-size"});
  AddNumber(params, "ep", words, {"--ep-size", "--expert-parallel-size"});
  if (!params.contains("ep") &&
      std::find(words.begin(), words.end(), "--enable-expert-parallel") != words.end()) {
    params["ep"] = true;  // among all workers
  }
  AddNumber(params, "dp", words, {"--data-parallel-size", "-dp", "--dp-size", "--dp"});
  AddNumber(params, "processes", words, {"--nproc-per-node", "--nproc_per_node"});
  AddText(params, "load_format", words, {"--load-format"});
  AddText(params, "quantization", words, {"--quantization"});
  // A role reads at its own pace, and a draft model is read beside the model.
  AddText(params, "role", words, {"--disaggregation-mode", "--instance_role"});
  AddText(params, "draft", words,
          {"--speculative-draft-model-path", "--speculative-model", "--model-draft", "-md"});
  AddMember(params, "role", words, "--kv-transfer-config", "kv_role");
  AddMember(params, "draft", words, "--speculative-config", "model");
  if (std::find(words.begin(), words.end(), "--no-mmap") != words.end()) params["mmap"] = false;
  return params;
}

}  // namespace ppc::ctl
