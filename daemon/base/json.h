// SPDX-License-Identifier: Apache-2.0
// Owns reading and writing JSON without exceptions, and the sizes in it.
#ifndef PPC_DAEMON_BASE_JSON_H_
#define PPC_DAEMON_BASE_JSON_H_

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>

#include "daemon/base/result.h"

namespace ppc {

using Json = nlohmann::json;

// `what` names the text in the error ("config", "request").  Nesting beyond 64 levels is refused.
Result<Json> ParseJson(std::string_view text, const std::string& what);
// Likewise; must be an object.
Result<Json> ParseJsonObject(std::string_view text, const std::string& what);

// One line; bytes that are not UTF-8 are replaced, so nothing throws.
std::string DumpJson(const Json& value);

// "16M" -> 16777216; suffixes K M G T (powers of 1024), optionally followed by "i", "B" or "iB".
Result<uint64_t> ParseSize(std::string_view text);

// The member, or an empty object where there is none; lives as long as `object`.
const Json& JsonMember(const Json& object, const char* key);

// The member's text or count; "", nullopt or 0 if it is absent or of another type.
std::string JsonText(const Json& object, const char* key);
std::optional<uint64_t> JsonNumber(const Json& object, const char* key);
uint64_t JsonCount(const Json& object, const char* key);

// Members of an object; `fallback` if absent or null; an error that names the key if of a wrong
// type.
Result<uint64_t> JsonSize(const Json& object, const char* key, uint64_t fallback);
Result<int64_t> JsonInt(const Json& object, const char* key, int64_t fallback);
Result<bool> JsonBool(const Json& object, const char* key, bool fallback);
Result<std::string> JsonString(const Json& object, const char* key, const std::string& fallback);

}  // namespace ppc

#endif  // PPC_DAEMON_BASE_JSON_H_
