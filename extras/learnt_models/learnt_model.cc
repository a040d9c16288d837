// SPDX-License-Identifier: Apache-2.0
#include "extras/learnt_models/learnt_model.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <map>
#include <system_error>

#include "daemon/base/digests.h"
#include "daemon/base/files.h"
#include "daemon/base/json.h"
#include "tools/ppcctl/user_dirs.h"

namespace ppc::ctl {
namespace {

constexpr size_t kNameDigits = 32;

std::string WorkingDirectory() {
  std::error_code error;
  return std::filesystem::current_path(error).string();
}

Json Describe(const std::vector<std::string>& command, const std::string& working_directory) {
  return {{"command", command}, {"working_directory", working_directory}};
}

}  // namespace

std::optional<OpenedModel> LargestModel(const FileSizes& files) {
  std::map<std::string, OpenedModel> models;  // by what is to be registered
  for (const auto& [path, bytes] : files) {
    const std::string hub = HubDirectoryOf(path);
    std::string directory = hub.empty() ? path.substr(0, path.rfind('/')) : hub;
    OpenedModel& model = models[directory];
    model.bytes += bytes;
    // One file alone is the model; of a hub, and of several files, what holds them.
    model.model.path = ++model.files == 1 && hub.empty() ? path : directory;
    model.model.directory = std::move(directory);
  }
  std::optional<OpenedModel> largest;
  for (auto& [directory, model] : models) {
    if (!largest || model.bytes > largest->bytes) largest = std::move(model);
  }
  return largest;
}

LearntModel::LearntModel(const std::string& store, const std::vector<std::string>& command)
    : directory_(store), command_(command), working_directory_(WorkingDirectory()) {}

std::optional<FoundModel> LearntModel::Load() const {
  if (directory_.empty()) return std::nullopt;
  const std::string file = FileOf();
  const Result<std::string> text = ReadFile(file);
  const Result<Json> state = text ? ParseJsonObject(*text, file) : Result<Json>(text.error());
  if (!state) return std::nullopt;
  const Result<std::string> path = JsonString(*state, "model", "");
  if (!path || path->empty()) return std::nullopt;
  return ModelAt(*path);
}

Status LearntModel::Save(const OpenedModel& opened) const {
  if (directory_.empty()) {
    return Error{ENOENT, "nowhere to note what the command opened; set HOME or XDG_STATE_HOME"};
  }
  if (Status status = MakeStateDirectories(directory_ + "/commands"); !status) return status;
  const std::string file = FileOf();
  const std::string fresh = file + "." + std::to_string(getpid());
  const UniqueFd fd(open(fresh.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600));
  if (!fd.IsValid()) return PosixError("open " + fresh, errno);
  Json state = Describe(command_, working_directory_);
  state["model"] = opened.model.path;
  const std::string text = DumpJson(state) + "\n";
  if (Status status = WriteAll(fd.Get(), text.data(), text.size()); !status) return status;
  if (rename(fresh.c_str(), file.c_str()) != 0) return PosixError("rename " + fresh, errno);
  return Ok();
}

std::string LearntModel::FileOf() const {
  const std::string key = DumpJson(Describe(command_, working_directory_));
  return directory_ + "/commands/" + Sha256Hex(key).substr(0, kNameDigits) + ".json";
}

}  // namespace ppc::ctl
