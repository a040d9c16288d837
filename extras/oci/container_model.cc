// SPDX-License-Identifier: Apache-2.0
#include "extras/oci/container_model.h"

#include <cerrno>
#include <filesystem>
#include <optional>
#include <system_error>
#include <vector>

#include "tools/ppcctl/command_words.h"
#include "tools/ppcctl/model_service.h"

namespace ppc::oci {
namespace {

namespace fs = std::filesystem;

std::string Variable(const Container& container, const std::string& name) {
  const auto it = container.environment.find(name);
  return it == container.environment.end() ? "" : it->second;
}

// In the container.
std::string HubCache(const Container& container) {
  for (const char* name : {"HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE"}) {
    if (const std::string cache = Variable(container, name); !cache.empty()) return cache;
  }
  if (const std::string home = Variable(container, "HF_HOME"); !home.empty()) return home + "/hub";
  std::string cache = Variable(container, "XDG_CACHE_HOME");
  const std::string home = Variable(container, "HOME");
  if (cache.empty()) cache = (home.empty() ? "/root" : home) + "/.cache";
  return cache + "/huggingface/hub";
}

bool Exists(const std::string& path) {
  std::error_code error;
  return fs::exists(fs::symlink_status(path, error));
}

// The host's name of a path in the container; other words are unchanged.
std::string Translate(const std::string& word, const ContainerPaths& paths) {
  if (word.empty() || word[0] == '-') return word;
  const Result<std::string> host = paths.ToHost(word);
  if (host && Exists(*host)) return *host;
  return word[0] == '/' ? "" : word;
}

std::vector<std::string> TranslateAll(const std::vector<std::string>& words,
                                      const ContainerPaths& paths) {
  std::vector<std::string> translated;
  for (const std::string& word : words) {
    const size_t equals = word.find('=');
    translated.push_back(equals == std::string::npos
                             ? Translate(word, paths)
                             : word.substr(0, equals + 1) +
                                   Translate(word.substr(equals + 1), paths));
  }
  return translated;
}

// The host's resolution of the path must lead to the container's file.
Status CheckInside(const std::string& path, const ContainerPaths& paths) {
  std::error_code error;
  const fs::path real = fs::canonical(path, error);
  if (!error && !paths.ToContainer(real).empty()) return Ok();
  return Error{EXDEV, path + " leads out of the container"};
}

Status CheckModel(const ctl::FoundModel& model, const ContainerPaths& paths) {
  for (const std::string& path : {model.path, model.directory}) {
    if (Status status = CheckInside(path, paths); !status) return status;
  }
  std::error_code error;
  for (fs::directory_iterator entry(model.path, error); !error && entry != fs::directory_iterator();
       entry.increment(error)) {
    if (!entry->is_symlink(error)) continue;
    if (Status status = CheckInside(entry->path(), paths); !status) return status;
  }
  return Ok();
}

// ppc.model names a path, which is the model whatever it contains.
std::optional<ctl::FoundModel> ModelAtPath(const std::string& host) {
  if (std::optional<ctl::FoundModel> model = ctl::ModelAt(host)) return model;
  std::error_code error;
  if (fs::is_directory(host, error)) return ctl::FoundModel{host, host};
  if (fs::is_regular_file(host, error)) return ctl::FoundModel{host, fs::path(host).parent_path()};
  return std::nullopt;
}

}  // namespace

Result<ctl::FoundModel> FindContainerModel(const Container& container,
                                           const ContainerPaths& paths) {
  const std::string told = container.Annotation("ppc.model");
  const Result<std::string> hub = paths.ToHost(HubCache(container));
  std::optional<ctl::FoundModel> model;
  if (told.starts_with('/')) {
    const Result<std::string> host = paths.ToHost(told);
    if (!host) return host.error();
    model = ModelAtPath(*host);
  } else {
    const std::vector<std::string> words =
        told.empty() ? TranslateAll(ctl::WordsOf(container.command), paths)
                     : std::vector<std::string>{"", "--model", told};
    model = ctl::FindModel(words, hub ? *hub : "");
  }
  if (!model && !told.empty()) {
    return Error{ENOENT, "ppc.model: there is no " + told + " in the container"};
  }
  if (!model) {
    return Error{ENOENT, "the command names no model; name it by the annotation ppc.model"};
  }
  if (Status status = CheckModel(*model, paths); !status) return status.error();
  return *model;
}

Json ContainerParams(const Container& container, const ContainerPaths& paths,
                     const ctl::FoundModel& model) {
  Json params = ctl::ServiceParams(model.path, ctl::WordsOf(container.command));
  params["model"] = paths.ToContainer(model.path);
  params.erase("model_path");
  return params;
}

}  // namespace ppc::oci
