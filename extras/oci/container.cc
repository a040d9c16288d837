// SPDX-License-Identifier: Apache-2.0
#include "extras/oci/container.h"

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <utility>

#include "daemon/base/files.h"
#include "daemon/base/json.h"

namespace ppc::oci {
namespace {

constexpr size_t kMaxConfigurationBytes = 16 << 20;
constexpr size_t kMaxNameBytes = 200;

const Json& MemberOf(const Json& object, const char* key) {
  static const Json nothing;
  const auto it = object.find(key);
  return it == object.end() ? nothing : *it;
}

std::vector<std::string> TextsOf(const Json& object, const char* key) {
  std::vector<std::string> texts;
  for (const Json& text : MemberOf(object, key)) {
    if (text.is_string()) texts.push_back(text.get<std::string>());
  }
  return texts;
}

void TakeAnnotations(const Json& object, Container& container) {
  for (const auto& [key, value] : MemberOf(object, "annotations").items()) {
    if (value.is_string()) container.annotations[key] = value.get<std::string>();
  }
}

// From the bundle's files.
std::string OnHost(const Container& container, const std::string& path) {
  if (path.empty() || path[0] == '/') return path;
  return (std::filesystem::path(container.bundle) / path).lexically_normal();
}

Mount MountOf(const Container& container, const Json& entry) {
  const std::vector<std::string> options = TextsOf(entry, "options");
  const bool is_bind = JsonText(entry, "type") == "bind" ||
                       std::any_of(options.begin(), options.end(), [](const std::string& option) {
                         return option == "bind" || option == "rbind";
                       });
  return {JsonText(entry, "destination"),
          is_bind ? OnHost(container, JsonText(entry, "source")) : ""};
}

}  // namespace

bool IsContainerId(const std::string& id) {
  return !id.empty() && id.size() <= kMaxNameBytes && id[0] != '.' &&
         id.find('/') == std::string::npos && id.find('\0') == std::string::npos;
}

std::string Container::Annotation(const std::string& key) const {
  const auto it = annotations.find(key);
  return it == annotations.end() ? "" : it->second;
}

Result<Container> ReadState(const std::string& text) {
  const Result<Json> state = ParseJsonObject(text, "the container's state");
  if (!state) return state.error();
  Container container;
  container.id = JsonText(*state, "id");
  if (!IsContainerId(container.id)) {
    return Error{EINVAL, "the container's state names no usable \"id\""};
  }
  const Result<int64_t> pid = JsonInt(*state, "pid", 0);
  if (!pid || *pid < 0 || *pid > INT32_MAX) {
    return Error{EINVAL, "container " + container.id + ": \"pid\" of its state is no process"};
  }
  container.pid = static_cast<int>(*pid);
  container.bundle = JsonText(*state, "bundle");
  container.has_stopped = JsonText(*state, "status") == "stopped";
  TakeAnnotations(*state, container);
  return container;
}

Status ReadConfiguration(Container& container) {
  const std::string file = container.bundle + "/config.json";
  const Result<std::string> text = ReadFile(file, kMaxConfigurationBytes);
  if (!text) return text.error();
  const Result<Json> configuration = ParseJsonObject(*text, file);
  if (!configuration) return configuration.error();
  TakeAnnotations(*configuration, container);
  container.root = OnHost(container, JsonText(MemberOf(*configuration, "root"), "path"));
  for (const Json& entry : MemberOf(*configuration, "mounts")) {
    if (entry.is_object()) container.mounts.push_back(MountOf(container, entry));
  }
  const Json& process = MemberOf(*configuration, "process");
  container.command = TextsOf(process, "args");
  if (const std::string directory = JsonText(process, "cwd"); !directory.empty()) {
    container.directory = directory;
  }
  for (const std::string& variable : TextsOf(process, "env")) {
    const size_t equals = variable.find('=');
    if (equals == std::string::npos) continue;
    container.environment[variable.substr(0, equals)] = variable.substr(equals + 1);
  }
  return Ok();
}

}  // namespace ppc::oci
