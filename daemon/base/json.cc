// SPDX-License-Identifier: Apache-2.0
#include "daemon/base/json.h"

#include <cerrno>
#include <charconv>

namespace ppc {
namespace {

constexpr int kMaxDepth = 64;

// The parser recurses by nesting; this check keeps hostile input from exhausting the stack.
bool IsTooDeep(std::string_view text) {
  int depth = 0;
  bool in_string = false;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (in_string) {
      if (c == '\\') {
        ++i;
      } else if (c == '"') {
        in_string = false;
      }
    } else if (c == '"') {
      in_string = true;
    } else if (c == '{' || c == '[') {
      if (++depth > kMaxDepth) return true;
    } else if (c == '}' || c == ']') {
      --depth;
    }
  }
  return false;
}

const Json* Find(const Json& object, const char* key) {
  if (!object.is_object()) return nullptr;
  const auto it = object.find(key);
  return it == object.end() || it->is_null() ? nullptr : &*it;
}

Error WrongType(const char* key, const char* wanted) {
  return Error{EINVAL, std::string("\"") + key + "\" must be " + wanted};
}

int SuffixShift(std::string_view suffix) {
  if (suffix.empty() || suffix == "B") return 0;
  const std::string_view rest = suffix.substr(1);
  if (!rest.empty() && rest != "i" && rest != "B" && rest != "iB") return -1;
  switch (suffix[0]) {
    case 'K':
    case 'k':
      return 10;
    case 'M':
    case 'm':
      return 20;
    case 'G':
    case 'g':
      return 30;
    case 'T':
    case 't':
      return 40;
    default:
      return -1;
  }
}

}  // namespace

Result<Json> ParseJson(std::string_view text, const std::string& what) {
  if (IsTooDeep(text)) return Error{EINVAL, what + " is nested too deeply"};
  Json value = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (value.is_discarded()) return Error{EINVAL, what + " is not valid JSON"};
  return value;
}

Result<Json> ParseJsonObject(std::string_view text, const std::string& what) {
  Result<Json> value = ParseJson(text, what);
  if (value && !value->is_object()) return Error{EINVAL, what + " must be a JSON object"};
  return value;
}

std::string DumpJson(const Json& value) {
  return value.dump(-1, ' ', false, Json::error_handler_t::replace);
}

Result<uint64_t> ParseSize(std::string_view text) {
  double number = 0;
  const auto [end, ec] = std::from_chars(text.data(), text.data() + text.size(), number);
  const std::string bad = "\"" + std::string(text) + "\" is not a size; write bytes or e.g. 16M";
  if (ec != std::errc() || !(number >= 0)) return Error{EINVAL, bad};
  const int shift = SuffixShift(text.substr(static_cast<size_t>(end - text.data())));
  if (shift < 0) return Error{EINVAL, bad};
  const double bytes = number * static_cast<double>(1ULL << shift);
  if (bytes >= 9.2e18) return Error{EINVAL, bad};
  return static_cast<uint64_t>(bytes);
}

const Json& JsonMember(const Json& object, const char* key) {
  static const Json kNothing = Json::object();
  const auto it = object.is_object() ? object.find(key) : object.end();
  return it == object.end() ? kNothing : *it;
}

std::string JsonText(const Json& object, const char* key) {
  const Json& value = JsonMember(object, key);
  return value.is_string() ? value.get<std::string>() : "";
}

std::optional<uint64_t> JsonNumber(const Json& object, const char* key) {
  const Json& value = JsonMember(object, key);
  if (!value.is_number_integer() || value < 0) return std::nullopt;
  return value.get<uint64_t>();
}

uint64_t JsonCount(const Json& object, const char* key) {
  return JsonNumber(object, key).value_or(0);
}

Result<uint64_t> JsonSize(const Json& object, const char* key, uint64_t fallback) {
  const Json* value = Find(object, key);
  if (value == nullptr) return fallback;
  if (value->is_number_unsigned()) return value->get<uint64_t>();
  if (value->is_number_integer() && value->get<int64_t>() >= 0) return value->get<uint64_t>();
  if (value->is_number_float() && value->get<double>() >= 0 && value->get<double>() < 9.2e18) {
    return static_cast<uint64_t>(value->get<double>());
  }
  if (!value->is_string()) return WrongType(key, "a size: bytes, or text such as \"16M\"");
  Result<uint64_t> size = ParseSize(value->get_ref<const std::string&>());
  if (!size) return Error{EINVAL, std::string("\"") + key + "\": " + size.error().message};
  return size;
}

Result<int64_t> JsonInt(const Json& object, const char* key, int64_t fallback) {
  const Json* value = Find(object, key);
  if (value == nullptr) return fallback;
  if (!value->is_number_integer()) return WrongType(key, "a whole number");
  return value->get<int64_t>();
}

Result<bool> JsonBool(const Json& object, const char* key, bool fallback) {
  const Json* value = Find(object, key);
  if (value == nullptr) return fallback;
  if (!value->is_boolean()) return WrongType(key, "true or false");
  return value->get<bool>();
}

Result<std::string> JsonString(const Json& object, const char* key, const std::string& fallback) {
  const Json* value = Find(object, key);
  if (value == nullptr) return fallback;
  if (!value->is_string()) return WrongType(key, "text");
  return value->get<std::string>();
}

}  // namespace ppc
