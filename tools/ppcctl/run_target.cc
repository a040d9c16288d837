// SPDX-License-Identifier: Apache-2.0
#include "tools/ppcctl/run_target.h"

#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <optional>
#include <utility>

#include "daemon/wire/service_id.h"
#include "tools/ppcctl/extra.h"
#include "tools/ppcctl/model_find.h"
#include "tools/ppcctl/model_service.h"
#include "tools/ppcctl/spec.h"

namespace ppc::ctl {
namespace {

bool IsRegularFile(const std::string& path) {
  struct stat info {};
  return stat(path.c_str(), &info) == 0 && S_ISREG(info.st_mode);
}

// DIR, a directory or a model file.
Result<Target> TargetAt(const Args& args, const std::vector<std::string>& words) {
  const std::string& operand = args.operands[0];
  if (IsRegularFile(operand)) {
    const std::optional<FoundModel> model = ModelAt(operand);
    if (!model) return Error{ENOTDIR, operand + " is neither a directory nor a model file"};
    return Target{model->directory, model->path};
  }
  const Result<std::string> given = ReadMount(args);
  if (!given) return given.error();
  std::optional<FoundModel> model = FindModel(words, HubCacheFromEnvironment());
  const std::string below = *given == "/" ? *given : *given + "/";
  if (model && !(model->path + "/").starts_with(below)) model.reset();
  if (!model) model = ModelAt(*given);
  return Target{*given, model ? model->path : *given};
}

Target TargetOf(const Args& args, const std::vector<std::string>& words) {
  std::optional<FoundModel> model = FindModel(words, HubCacheFromEnvironment());
  const bool is_in_words = model.has_value();
  for (const Extra& extra : Extras()) {
    if (!model && extra.remembered != nullptr) model = extra.remembered(args.command);
  }
  if (!model) return Target{"", "", is_in_words};
  return Target{model->directory, model->path, is_in_words};
}

}  // namespace

Result<Target> FindTarget(const Args& args, const std::vector<std::string>& words) {
  if (!args.operands.empty()) return TargetAt(args, words);
  return TargetOf(args, words);
}

bool LearnsModels() {
  return std::ranges::any_of(Extras(),
                             [](const Extra& extra) { return extra.remembered != nullptr; });
}

Result<ServiceRequest> ReadRequest(const Args& args, unsigned default_timeout_ms) {
  ServiceRequest request;
  Result<Json> spec = ReadServiceFields(args);
  if (!spec) return spec.error();
  request.spec = *std::move(spec);
  // Our end, however it comes, ends the service.  ppcd knows our number in its own pid namespace.
  request.spec["pid"] = 0;
  const Result<Json> params = ReadParams(args);
  if (!params) return params.error();
  if (!params->empty()) request.spec["params"] = *params;
  if (HasServiceId(args)) {
    const Result<std::string> id = ReadServiceId(args);
    if (!id) return id.error();
    request.spec["service_id"] = *id;
  }
  request.policy = args.Get("--policy");
  if (args.Has("--config")) {
    Result<Json> config = ReadObject(args.Get("--config"), "--config");
    if (!config) return config.error();
    request.config = *std::move(config);
  }
  const Result<unsigned> timeout = ReadTimeoutMs(args, default_timeout_ms);
  if (!timeout) return timeout.error();
  request.timeout_ms = *timeout;
  return request;
}

Result<ServiceRequest> RequestFor(ServiceRequest request, const Target& target,
                                  const std::vector<std::string>& words) {
  if (target.directory.empty()) {
    return Error{ENOENT, "the command names no model; name its directory: ppcctl run DIR -- CMD"};
  }
  request.directory = target.directory;
  if (!request.spec.contains("params")) request.spec["params"] = ServiceParams(target.model, words);
  return request;
}

Result<std::string> RunServiceId(const Json& spec, const Target& target,
                                 const std::vector<std::string>& command,
                                 const std::vector<std::string>& words) {
  if (spec.contains("service_id")) {
    const auto id = spec["service_id"].get<std::string>();
    if (Status status = control::CheckServiceId(id); !status) return status.error();
    return id;
  }
  Json params{{"command", command}};
  if (spec.contains("params")) {
    params = spec["params"];
  } else if (!target.directory.empty() && target.is_in_words) {
    params = ServiceParams(target.model, words);
  }
  const Result<control::ServiceName> name = control::MakeServiceName(params);
  if (!name) return name.error();
  return name->id;
}

}  // namespace ppc::ctl
