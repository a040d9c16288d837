// SPDX-License-Identifier: Apache-2.0
#include "extras/artifact/values.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cerrno>

#include "daemon/wire/service_id.h"
#include "extras/artifact/files_at.h"

namespace ppc::artifact {
namespace {

constexpr const char* kDirectory = "values";
constexpr std::string_view kHead = "ppc-values 1 ";
// Only the command's caller may set these.
constexpr std::array<std::string_view, 15> kKept = {
    "PATH",         "HOME",     "USER",     "LOGNAME",   "SHELL",
    "IFS",          "ENV",      "BASH_ENV", "SHELLOPTS", "BASHOPTS",
    "NODE_OPTIONS", "PERL5OPT", "PERL5LIB", "RUBYOPT",   "RUBYLIB"};
constexpr std::array<std::string_view, 6> kKeptBeginnings = {"LD_",   "PYTHON", "PPC_",
                                                             "GCONV", "GLIBC_", "MALLOC_"};

std::string PathOfValues(const std::string& service_id) {
  return std::string(kDirectory) + "/" + service_id;
}

bool IsGoodValue(std::string_view value) {
  return value.size() <= kMaxValueBytes && std::ranges::none_of(value, [](char c) {
           return static_cast<unsigned char>(c) < ' ' || c == 127;
         });
}

}  // namespace

Status CheckValueName(std::string_view name) {
  const bool is_name = !name.empty() && name.size() <= kMaxValueName &&
                       std::isdigit(static_cast<unsigned char>(name[0])) == 0 &&
                       std::ranges::all_of(name, [](char c) {
                         return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_';
                       });
  if (!is_name) {
    return Error{EINVAL, "'" + std::string(name.substr(0, kMaxValueName)) +
                             "' is no name of a value: letters, digits and _, at most 64"};
  }
  const bool is_kept =
      std::ranges::find(kKept, name) != kKept.end() ||
      std::ranges::any_of(kKeptBeginnings, [&](auto start) { return name.starts_with(start); });
  if (!is_kept) return Ok();
  return Error{EINVAL, std::string(name) +
                           " says what is run or loaded, and is not carried from start to start; "
                           "set it in the environment of `ppcctl run`"};
}

Result<std::pair<std::string, std::string>> ReadValue(const std::string& text) {
  const size_t equals = text.find('=');
  if (equals == std::string::npos)
    return Error{EINVAL, "'" + text.substr(0, kMaxValueName) + "' is not NAME=VALUE"};
  std::pair<std::string, std::string> value{text.substr(0, equals), text.substr(equals + 1)};
  if (Status status = CheckValueName(value.first); !status) return status.error();
  if (IsGoodValue(value.second)) return value;
  return Error{
      EINVAL,
      value.first + ": a value is one line of at most 4096 bytes, without control characters"};
}

Result<Values> LoadValues(const Store& store, const std::string& service_id) {
  if (Status status = control::CheckServiceId(service_id); !status) return status.error();
  const Result<std::string> text =
      store.LoadSealed(PathOfValues(service_id), kMaxValues * (kMaxValueName + kMaxValueBytes + 8));
  if (!text && text.error().code == ENOENT) return Values{};
  const std::string shown = "values of service " + service_id + ": ";
  if (!text) return Error{text.error().code, shown + text.error().message};
  Values values;
  const std::string head = std::string(kHead) + service_id + "\n";
  const Error bad{EBADMSG, shown + "they are another's, or of a later version; remove " +
                               store.path() + "/" + PathOfValues(service_id)};
  if (!text->starts_with(head)) return bad;
  for (size_t at = head.size(); at < text->size();) {
    const size_t end = text->find('\n', at);
    if (end == std::string::npos) return bad;
    Result<std::pair<std::string, std::string>> value = ReadValue(text->substr(at, end - at));
    if (!value || values.size() >= kMaxValues) return bad;
    values.insert(*std::move(value));
    at = end + 1;
  }
  return values;
}

Status SaveValues(const Store& store, const std::string& service_id, const Values& values) {
  if (Status status = control::CheckServiceId(service_id); !status) return status.error();
  if (values.size() > kMaxValues) {
    return Error{E2BIG, "a service keeps at most 64 values; give NAME= for one that is not needed"};
  }
  if (values.empty()) {
    const bool is_gone = unlinkat(store.fd(), PathOfValues(service_id).c_str(), 0) == 0;
    return is_gone || errno == ENOENT ? Ok() : Status(store.Failure("remove values", errno));
  }
  std::string text = std::string(kHead) + service_id + "\n";
  for (const auto& [name, value] : values) text += name + "=" + value + "\n";
  if (mkdirat(store.fd(), kDirectory, 0700) != 0 && errno != EEXIST)
    return store.Failure("mkdir", errno);
  return store.SaveSealed(PathOfValues(service_id), text);
}

}  // namespace ppc::artifact
