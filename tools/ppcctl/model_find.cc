// SPDX-License-Identifier: Apache-2.0
#include "tools/ppcctl/model_find.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <cstdlib>
#include <filesystem>
#include <string_view>
#include <system_error>

#include "daemon/base/files.h"
#include "policies/maio/template/file_kind.h"
#include "tools/ppcctl/command_words.h"
#include "tools/ppcctl/environment.h"

namespace ppc::ctl {
namespace {

namespace fs = std::filesystem;

// The index of a pipeline, whose components lie in directories beside it.
constexpr std::string_view kPipeline = "model_index.json";
constexpr std::array<std::string_view, 9> kModelOptions = {
    "--model",     "-m",          "--model-path",         "--model_path",
    "--model-id",  "--model-dir", "--model-name-or-path", "--model_name_or_path",
    "--pretrained"};
constexpr std::string_view kHubPrefix = "models--";

// "" = there is none.
std::string RealPath(const std::string& path) {
  std::error_code error;
  const fs::path real = fs::canonical(path, error);
  return error ? "" : real.string();
}

bool IsFile(const fs::path& path) {
  std::error_code error;
  return fs::is_regular_file(path, error);
}

bool IsDirectory(const fs::path& path) {
  std::error_code error;
  return fs::is_directory(path, error);
}

bool HoldsModel(const std::string& directory) {
  if (IsFile(fs::path(directory) / kPipeline)) return true;
  std::error_code error;
  for (fs::directory_iterator entry(directory, error); !error && entry != fs::directory_iterator();
       entry.increment(error)) {
    const std::string name = entry->path().filename();
    if (name[0] != '.' && IsModelFile(name) && IsFile(entry->path())) return true;
  }
  return false;
}

// The directory of a hub cache that holds snapshots and blobs.
bool IsRepository(const std::string& directory) {
  return fs::path(directory).filename().string().starts_with(kHubPrefix) &&
         IsDirectory(directory + "/snapshots");
}

bool IsNamePart(std::string_view part) {
  return !part.empty() && part != "." && part != ".." &&
         std::all_of(part.begin(), part.end(), [](unsigned char c) {
           return std::isalnum(c) != 0 || c == '.' || c == '_' || c == '-';
         });
}

// ORG/NAME, for llama.cpp with :QUANT; or NAME alone.
std::string HubNameOf(std::string text) {
  text = text.substr(0, text.find(':'));
  const size_t slash = text.find('/');
  const bool is_name = slash == std::string::npos
                           ? IsNamePart(text)
                           : IsNamePart(std::string_view(text).substr(0, slash)) &&
                                 IsNamePart(std::string_view(text).substr(slash + 1));
  if (!is_name) return "";
  std::string name = std::string(kHubPrefix) + text.substr(0, slash);
  if (slash != std::string::npos) name += "--" + text.substr(slash + 1);
  return name;
}

std::optional<FoundModel> ModelNamed(const std::string& text, const std::string& hub_cache,
                                     const std::string& revision) {
  if (std::optional<FoundModel> model = ModelAt(text)) return model;
  const std::string name = HubNameOf(text);
  if (name.empty() || hub_cache.empty()) return std::nullopt;
  return ModelInHub(hub_cache + "/" + name, revision);
}

}  // namespace

bool IsModelFile(const std::string& path) {
  const bool is_named = maio::IsTabled(path) || maio::IsPlain(path);
  return is_named || (path.find("/blobs/") != std::string::npos && !HubDirectoryOf(path).empty());
}

std::string HubDirectoryOf(const std::string& path) {
  for (size_t at = path.find('/'); at != std::string::npos; at = path.find('/', at + 1)) {
    if (!std::string_view(path).substr(at + 1).starts_with(kHubPrefix)) continue;
    const size_t end = path.find('/', at + 1);
    if (end == std::string::npos) return "";
    const std::string_view rest = std::string_view(path).substr(end + 1);
    if (rest.starts_with("snapshots/") || rest.starts_with("blobs/")) return path.substr(0, end);
  }
  return "";
}

std::optional<FoundModel> ModelAt(const std::string& path) {
  if (IsDirectory(path)) {
    const std::string real = RealPath(path);
    if (IsRepository(real)) return ModelInHub(real, "");
    if (real.empty() || !HoldsModel(real)) return std::nullopt;
    const std::string hub = HubDirectoryOf(real);
    return FoundModel{real, hub.empty() ? real : hub};
  }
  if (!IsModelFile(path) || !IsFile(path)) return std::nullopt;
  // In a hub's snapshot this is the link, whose target has no telling name.
  const fs::path given(path);
  const std::string parent = RealPath(given.has_parent_path() ? given.parent_path() : ".");
  const std::string link = parent + "/" + given.filename().string();
  if (const std::string hub = HubDirectoryOf(link); !hub.empty()) return FoundModel{link, hub};
  const std::string real = RealPath(path);
  if (real.empty()) return std::nullopt;
  return FoundModel{real, fs::path(real).parent_path()};
}

std::optional<FoundModel> ModelInHub(const std::string& directory, const std::string& revision) {
  if (!IsDirectory(directory + "/snapshots")) return std::nullopt;
  const std::string wanted = revision.empty() ? "main" : revision;
  const Result<std::string> commit = ReadLine(directory + "/refs/" + wanted);
  if (auto model = ModelAt(directory + "/snapshots/" + (commit ? *commit : wanted))) return model;
  if (!revision.empty()) return std::nullopt;
  // No branch is noted: the one snapshot that is there.
  std::vector<FoundModel> models;
  std::error_code error;
  for (fs::directory_iterator entry(directory + "/snapshots", error);
       !error && entry != fs::directory_iterator(); entry.increment(error)) {
    if (auto model = ModelAt(entry->path())) models.push_back(*model);
  }
  return models.size() == 1 ? std::optional(models[0]) : std::nullopt;
}

std::string HubCacheFromEnvironment() {
  for (const char* name : {"HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE"}) {
    if (const std::string cache = FromEnvironment(name); !cache.empty()) return cache;
  }
  if (const std::string home = FromEnvironment("HF_HOME"); !home.empty()) return home + "/hub";
  std::string cache = FromEnvironment("XDG_CACHE_HOME");
  const std::string home = FromEnvironment("HOME");
  if (cache.empty() && home.empty()) return "";
  if (cache.empty()) cache = home + "/.cache";
  return cache + "/huggingface/hub";
}

std::optional<FoundModel> FindModel(const std::vector<std::string>& words,
                                    const std::string& hub_cache) {
  const std::string cache =
      OptionValue(words, {"--download-dir", "--cache-dir", "--huggingface-hub-cache"})
          .value_or(hub_cache);
  const std::string revision = OptionValue(words, {"--revision"}).value_or("");
  for (const std::string_view option : kModelOptions) {
    const std::optional<std::string> value = OptionValue(words, {option});
    if (!value) continue;
    if (auto model = ModelNamed(*value, cache, revision)) return model;
  }
  for (size_t i = 1; i < words.size(); ++i) {
    const size_t equals = words[i].find('=');
    const std::string word = equals == std::string::npos ? words[i] : words[i].substr(equals + 1);
    if (word.empty() || word[0] == '-') continue;
    // A plain word is more often a subcommand than a repository.
    const bool can_be_hub = word.find('/') != std::string::npos;
    if (auto model = ModelNamed(word, can_be_hub ? cache : "", revision)) return model;
  }
  return std::nullopt;
}

}  // namespace ppc::ctl
