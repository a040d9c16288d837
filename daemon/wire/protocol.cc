// SPDX-License-Identifier: Apache-2.0
#include "daemon/wire/protocol.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <span>

#include "daemon/base/suggest.h"

namespace ppc::control {
namespace {

enum class Kind { kString, kObject, kCount, kIndexes };

struct Field {
  const char* name;
  Kind kind;
  bool is_required;
};

struct Operation {
  const char* name;
  bool changes_state;
  bool is_for_services;
  std::span<const Field> fields;
};

// strerrorname_np() would need glibc 2.32.
struct ErrnoEntry {
  int code;
  const char* name;
};
constexpr ErrnoEntry kErrnoEntries[] = {
#define E(name) {name, #name},
#include "daemon/wire/errno_names.inc"
#undef E
};

constexpr Field kMount = {"mount", Kind::kString, true};
constexpr Field kServiceId = {"service_id", Kind::kString, true};
constexpr std::array kRegPolicy = {kMount, Field{"policy", Kind::kString, true},
                                   Field{"config", Kind::kObject, false},
                                   Field{"backend", Kind::kString, false}};
constexpr std::array kMountOnly = {kMount};
constexpr std::array kServiceStart = {kMount,
                                      Field{"service_id", Kind::kString, false},
                                      Field{"params", Kind::kObject, false},
                                      Field{"xpus", Kind::kIndexes, false},
                                      Field{"workers", Kind::kCount, false},
                                      Field{"node", Kind::kCount, false},
                                      Field{"nodes", Kind::kCount, false},
                                      Field{"first_worker", Kind::kCount, false},
                                      Field{"cgroup", Kind::kString, false},
                                      Field{"pid", Kind::kCount, false},
                                      Field{"wait_ms", Kind::kCount, false}};
constexpr std::array kServiceOther = {kMount, kServiceId};
constexpr std::array kServicePhase = {kMount, kServiceId, Field{"phase", Kind::kString, true}};
constexpr std::array kServiceFailed = {kMount, kServiceId, Field{"wait_s", Kind::kCount, false}};
constexpr std::array kPolicy = {kMount, Field{"message", Kind::kObject, true}};
constexpr std::array kStatus = {Field{"mount", Kind::kString, false}};
constexpr std::array kMetrics = {Field{"format", Kind::kString, false}};
constexpr std::array kNodeState = {Field{"node", Kind::kObject, true},
                                   Field{"for_s", Kind::kCount, true}};
constexpr std::array kParams = {Field{"params", Kind::kObject, true}};

constexpr std::array kOperations = {
    Operation{"ping", false, true, {}},
    Operation{"reg_policy", true, false, kRegPolicy},
    Operation{"rm_policy", true, false, kMountOnly},
    Operation{"service_start", true, true, kServiceStart},
    Operation{"service_ready", true, true, kServiceOther},
    Operation{"service_phase", true, true, kServicePhase},
    Operation{"service_failed", true, true, kServiceFailed},
    Operation{"service_stop", true, true, kServiceOther},
    Operation{"policy", true, false, kPolicy},
    Operation{"list", false, false, {}},
    Operation{"status", false, true, kStatus},
    Operation{"log", false, false, kStatus},
    Operation{"metrics", false, false, kMetrics},
    Operation{"node_state", false, false, kNodeState},
    Operation{"off", true, false, {}},
    Operation{"on", true, false, {}},
    Operation{"service_id", false, true, kParams},
};

bool IsCount(const Json& value) {
  return value.is_number_unsigned() && value.get<uint64_t>() <= 0x7fffffff;
}

bool IsIndexes(const Json& value) {
  return value.is_array() && !value.empty() && std::all_of(value.begin(), value.end(), IsCount);
}

Status CheckField(const Field& field, const Json& value) {
  const char* wanted = nullptr;
  switch (field.kind) {
    case Kind::kString:
      if (!value.is_string() || value.get_ref<const std::string&>().empty()) wanted = "text";
      break;
    case Kind::kObject:
      if (!value.is_object()) wanted = "an object";
      break;
    case Kind::kCount:
      if (!IsCount(value)) wanted = "a whole number from 0 to 2147483647";
      break;
    case Kind::kIndexes:
      if (!IsIndexes(value)) wanted = "an array of one or more whole numbers";
      break;
  }
  if (wanted == nullptr) return Ok();
  return Error{EINVAL, std::string("\"") + field.name + "\" must be " + wanted};
}

Status CheckFields(const Operation& operation, const Json& body) {
  for (const Field& field : operation.fields) {
    const auto it = body.find(field.name);
    if (it == body.end()) {
      if (!field.is_required) continue;
      return Error{EINVAL, std::string(operation.name) + " needs \"" + field.name + "\""};
    }
    if (Status status = CheckField(field, *it); !status) return status;
  }
  for (const auto& [key, value] : body.items()) {
    if (key == "v" || key == "op") continue;
    const auto is_key = [&key = key](const Field& field) { return key == field.name; };
    if (std::none_of(operation.fields.begin(), operation.fields.end(), is_key)) {
      return Error{EINVAL, std::string(operation.name) + " has no field " + DumpJson(key)};
    }
  }
  return Ok();
}

Status CheckVersion(const Json& body) {
  const auto it = body.find("v");
  if (it != body.end() && it->is_number_integer() && *it == kProtocolVersion) return Ok();
  const std::string given = it == body.end() ? "none" : DumpJson(*it).substr(0, 32);
  return Error{EPROTO, "protocol version " + given +
                           "; this ppcd speaks \"v\": " + std::to_string(kProtocolVersion)};
}

}  // namespace

Result<Request> ParseRequest(std::string_view line) {
  Result<Json> body = ParseJsonObject(line, "request");
  if (!body) return std::move(body).error();
  if (Status status = CheckVersion(*body); !status) return std::move(status).error();
  const auto op = body->find("op");
  if (op == body->end() || !op->is_string()) {
    return Error{EINVAL, "\"op\" must name an operation, such as \"status\""};
  }
  const std::string name = op->get<std::string>();
  for (const Operation& operation : kOperations) {
    if (name != operation.name) continue;
    if (Status status = CheckFields(operation, *body); !status) return std::move(status).error();
    return Request{name, std::move(body).value(), operation.changes_state,
                   operation.is_for_services};
  }
  return Error{EOPNOTSUPP, "unknown op " + DumpJson(name.substr(0, 64))};
}

std::vector<std::string> OperationNames() {
  std::vector<std::string> names;
  names.reserve(kOperations.size());
  for (const Operation& operation : kOperations) names.emplace_back(operation.name);
  return names;
}

std::string ServiceSocketBeside(const std::string& admin_socket) {
  return admin_socket.substr(0, admin_socket.rfind('/') + 1) + "service/ppcd.sock";
}

std::string OffMark(const std::string& template_dir) {
  return template_dir.substr(0, template_dir.rfind('/') + 1) + "off";
}

std::string HowToStart(const std::string& admin_socket, const std::string& root) {
  if (admin_socket != kDefaultSocket) {
    // A socket of the usual name has a directory to itself, as in docs/run.md.
    const size_t slash = admin_socket.rfind('/');
    const std::string state = admin_socket.substr(slash + 1) == "ppcd.sock"
                                  ? admin_socket.substr(0, slash)
                                  : admin_socket + ".state";
    return "ppcd --socket " + ShellWord(admin_socket) + " --state-dir " + ShellWord(state);
  }
  return access((root + "/run/systemd/system").c_str(), F_OK) == 0 ? "systemctl start ppcd"
                                                                   : "ppcd";
}

Json OkAnswer() { return Json{{"ok", true}}; }

Json OkAnswer(const Json& more) {
  Json answer = more;
  answer.update(OkAnswer());
  return answer;
}

Json ErrorAnswer(const Error& error) {
  std::string line = error.message;
  // What was named may be as long as a request; the remedy comes last.
  if (line.size() > kMaxErrorText) {
    const std::string_view gap = " ... ";
    const size_t part = (kMaxErrorText - gap.size()) / 2;
    line.replace(part, line.size() - 2 * part, gap);
  }
  std::replace(line.begin(), line.end(), '\n', ' ');
  return Json{{"ok", false}, {"code", ErrnoName(error.code)}, {"error", line}};
}

Error AnswerError(const Json& answer) {
  Error error{EIO, "the answer has no error text"};
  if (!answer.is_object()) return Error{EPROTO, "the answer is not a JSON object"};
  if (const auto it = answer.find("code"); it != answer.end() && it->is_string()) {
    error.code = ErrnoFromName(it->get_ref<const std::string&>());
  }
  if (const auto it = answer.find("error"); it != answer.end() && it->is_string()) {
    error.message = it->get<std::string>();
  }
  return error;
}

bool IsOk(const Json& answer) { return JsonMember(answer, "ok") == true; }

std::string ErrnoName(int code) {
  for (const ErrnoEntry& entry : kErrnoEntries) {
    if (entry.code == code) return entry.name;
  }
  return "EIO";
}

int ErrnoFromName(std::string_view name) {
  if (name == "ENOTSUP") return EOPNOTSUPP;
  for (const ErrnoEntry& entry : kErrnoEntries) {
    if (entry.name == name) return entry.code;
  }
  return EIO;
}

}  // namespace ppc::control
