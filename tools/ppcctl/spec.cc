// SPDX-License-Identifier: Apache-2.0
#include "tools/ppcctl/spec.h"

#include <cerrno>
#include <cstdlib>
#include <memory>
#include <sstream>

#include "daemon/base/files.h"
#include "daemon/base/text.h"
#include "daemon/machine/mount_table.h"
#include "daemon/wire/protocol.h"
#include "daemon/wire/service_id.h"
#include "tools/ppcctl/environment.h"
#include "tools/ppcctl/text.h"

namespace ppc::ctl {
namespace {

Json ReadValue(const std::string& text) {
  const Result<Json> value = ParseJson(text, "value");
  const bool is_scalar = value && (value->is_number() || value->is_boolean());
  // "1.0", "007" and "1e3" stay text: only what comes back the same is a number.
  if (is_scalar && DumpJson(*value) == text) return *value;
  return text;
}

Result<Json> ReadIndexes(const std::string& text) {
  Json list = Json::array();
  std::istringstream parts(text);
  for (std::string part; std::getline(parts, part, ',');) {
    const Result<int64_t> index = ReadWhole("--xpu", part);
    if (!index) return index.error();
    list.push_back(*index);
  }
  if (list.empty()) return Error{EINVAL, "--xpu needs a list such as 0,1"};
  return list;
}

bool IsMountPoint(const std::string& path) {
  const std::vector<MountEntry> table = ReadMountTable(RootsFromEnvironment());
  const std::string normal = NormalPath(path);
  const MountEntry* entry = FindMount(table, normal);
  return entry != nullptr && entry->point == normal;
}

}  // namespace

Result<Json> ReadObject(const std::string& text, const std::string& what) {
  if (!text.starts_with('@')) return ParseJsonObject(text, what);
  const std::string file = text.substr(1);
  const Result<std::string> content = ReadFile(file, control::kMaxLineBytes + 1);
  if (!content) return Error{content.error().code, what + ": " + content.error().message};
  return ParseJsonObject(*content, what + " " + file);
}

Result<Json> ReadParams(const Args& args) {
  Json params = Json::object();
  if (args.Has("--params")) {
    Result<Json> given = ReadObject(args.Get("--params"), "--params");
    if (!given) return given.error();
    params = std::move(given).value();
  }
  for (const std::string& pair : args.All("--param")) {
    const size_t equals = pair.find('=');
    if (equals == std::string::npos || equals == 0) {
      return Error{EINVAL, "--param '" + pair + "' is not KEY=VALUE"};
    }
    params[pair.substr(0, equals)] = ReadValue(pair.substr(equals + 1));
  }
  return params;
}

Result<std::string> ReadServiceId(const Args& args) {
  if (args.Has("--id")) return args.Get("--id");
  const Result<Json> params = ReadParams(args);
  if (!params) return params.error();
  if (!params->empty()) {
    const Result<control::ServiceName> name = control::MakeServiceName(*params);
    if (!name) return name.error();
    return name->id;
  }
  std::string from_env = FromEnvironment("PPC_SERVICE_ID");
  if (!from_env.empty()) return from_env;
  return Error{EINVAL, "which service? give --id ID or --param model=NAME..."};
}

bool HasServiceId(const Args& args) {
  return args.Has("--id") || args.Has("--param") || args.Has("--params") ||
         !FromEnvironment("PPC_SERVICE_ID").empty();
}

Result<std::string> ReadMount(const Args& args) {
  const std::string given = args.operands.empty() ? FromEnvironment("PPC_MOUNT") : args.operands[0];
  if (given.empty()) return Error{EINVAL, "which mount? give MNT or set PPC_MOUNT"};
  const bool is_absolute = given[0] == '/';
  if (is_absolute && IsMountPoint(given)) return given;  // one that does not answer, too
  const std::unique_ptr<char, FreeText> real(realpath(given.c_str(), nullptr));
  if (real) return std::string(real.get());
  if (is_absolute) return given;  // ppcd may know it still
  return PosixError(given, errno);
}

Result<Json> ReadServiceFields(const Args& args) {
  Json spec{{"op", "service_start"}};
  if (args.Has("--xpu")) {
    Result<Json> xpus = ReadIndexes(args.Get("--xpu"));
    if (!xpus) return xpus.error();
    spec["xpus"] = *xpus;
  }
  // 8-15: this node's of a service on several.
  std::string workers = args.Get("--workers");
  if (const size_t dash = workers.find('-');
      args.Has("--workers") && dash != std::string::npos && dash != 0) {
    const Result<int64_t> first = ReadWhole("--workers", workers.substr(0, dash));
    const Result<int64_t> last = ReadWhole("--workers", workers.substr(dash + 1));
    if (!first) return first.error();
    if (!last) return last.error();
    if (*last < *first) return Error{EINVAL, "--workers " + workers + " ends before it begins"};
    spec["first_worker"] = *first;
    workers = std::to_string(*last - *first + 1);
  }
  if (args.Has("--workers")) {
    const Result<int64_t> count = ReadWhole("--workers", workers);
    if (!count) return count.error();
    spec["workers"] = *count;
  }
  for (const char* option : {"--node", "--nodes", "--pid"}) {
    if (!args.Has(option)) continue;
    const Result<int64_t> value = ReadWhole(option, args.Get(option));
    if (!value) return value.error();
    spec[option + 2] = *value;
  }
  const int64_t nodes = spec.value("nodes", int64_t{1});
  if (args.Has("--nodes") && nodes == 0)
    return Error{EINVAL, "--nodes 0: a service has one at least"};
  if (args.Has("--node") && !args.Has("--nodes"))
    return Error{EINVAL, "--node is of a service on several nodes; give --nodes, too"};
  if (spec.value("node", int64_t{0}) >= nodes) {
    return Error{EINVAL, "--node " + args.Get("--node") + " is not below --nodes " +
                             args.Get("--nodes") + ": the first is 0"};
  }
  if (args.Has("--cgroup")) spec["cgroup"] = args.Get("--cgroup");
  return spec;
}

Result<Json> ReadServiceSpec(const Args& args) {
  const Result<std::string> mount = ReadMount(args);
  if (!mount) return mount.error();
  const Result<std::string> id = ReadServiceId(args);
  if (!id) return id.error();
  const Result<Json> params = ReadParams(args);
  if (!params) return params.error();
  Result<Json> spec = ReadServiceFields(args);
  if (!spec) return spec.error();
  (*spec)["mount"] = *mount;
  (*spec)["service_id"] = *id;
  if (!params->empty()) (*spec)["params"] = *params;
  return spec;
}

Result<int64_t> ReadWhole(const std::string& what, const std::string& text, int64_t least,
                          int64_t most) {
  const std::optional<int64_t> number = WholeNumber<int64_t>(text);
  if (number && *number >= least && *number <= most) return *number;
  return Error{EINVAL, what + " '" + text + "' is not a whole number from " +
                           std::to_string(least) + " to " + std::to_string(most)};
}

Result<unsigned> ReadSeconds(const char* option, const std::string& text) {
  const double seconds = WholeNumber<double>(text).value_or(0);
  if (!(seconds > 0) || seconds > 86400) {
    return Error{EINVAL,
                 std::string(option) + " '" + text + "' is not a number of seconds above 0"};
  }
  return static_cast<unsigned>(seconds * 1000) + 1;
}

Result<unsigned> ReadTimeoutMs(const Args& args, unsigned fallback_ms) {
  if (!args.Has("--timeout")) return fallback_ms;
  return ReadSeconds("--timeout", args.Get("--timeout"));
}

}  // namespace ppc::ctl
