// SPDX-License-Identifier: Apache-2.0
#include "daemon/base/config_reader.h"

#include <algorithm>
#include <cerrno>
#include <sstream>

#include "daemon/base/suggest.h"

namespace ppc {
namespace {

constexpr size_t kMaxShownBytes = 40;

std::string Shown(const Json& value) {
  const std::string text = DumpJson(value);
  return text.size() <= kMaxShownBytes ? text : text.substr(0, kMaxShownBytes) + "...";
}

std::string Shown(double number) {
  std::ostringstream text;
  text << number;
  return text.str();
}

}  // namespace

const Json* ConfigReader::Find(const char* key) {
  if (std::find(known_.begin(), known_.end(), key) == known_.end()) known_.emplace_back(key);
  if (!status_) return nullptr;
  const auto it = object_.find(key);
  return it == object_.end() || it->is_null() ? nullptr : &*it;
}

void ConfigReader::Refuse(const char* key, const std::string& wanted) {
  if (!status_) return;
  status_ = Error{EINVAL, what_ + " \"" + key + "\" must be " + wanted + ", not " +
                              Shown(object_.value(key, Json()))};
}

bool ConfigReader::ReadInt(const char* key, int64_t* out, int64_t least, int64_t most,
                           const char* unit) {
  const Json* value = Find(key);
  if (value == nullptr) return false;
  const bool is_whole = value->is_number_integer();
  // An unsigned value may exceed int64_t.
  const bool is_huge = value->is_number_unsigned() && value->get<uint64_t>() > INT64_MAX;
  if (is_whole && !is_huge && value->get<int64_t>() >= least && value->get<int64_t>() <= most) {
    *out = value->get<int64_t>();
    return true;
  }
  Refuse(key, "a whole number" + (*unit == '\0' ? std::string() : std::string(" of ") + unit) +
                  " from " + std::to_string(least) + " to " + std::to_string(most));
  return false;
}

void ConfigReader::Size(const char* key, uint64_t* out) {
  if (Find(key) == nullptr) return;
  const Result<uint64_t> value = JsonSize(object_, key, *out);
  if (!value) return Refuse(key, "a size: bytes, or text such as \"16M\"");
  *out = *value;
}

void ConfigReader::Number(const char* key, double* out, double least, double most, bool is_open) {
  const Json* value = Find(key);
  if (value == nullptr) return;
  const double number = value->is_number() ? value->get<double>() : 0;
  const bool is_in = number <= most && (is_open ? number > least : number >= least);
  if (value->is_number() && is_in) {
    *out = number;
    return;
  }
  Refuse(key, is_open ? "a number above " + Shown(least) + " and at most " + Shown(most)
                      : "a number from " + Shown(least) + " to " + Shown(most));
}

void ConfigReader::Bool(const char* key, bool* out) {
  const Json* value = Find(key);
  if (value == nullptr) return;
  if (!value->is_boolean()) return Refuse(key, "true or false");
  *out = value->get<bool>();
}

void ConfigReader::Text(const char* key, std::string* out) {
  const Json* value = Find(key);
  if (value == nullptr) return;
  if (!value->is_string() || *value == "") return Refuse(key, "text");
  *out = value->get<std::string>();
}

void ConfigReader::Path(const char* key, std::string* out) {
  const Json* value = Find(key);
  if (value == nullptr) return;
  const std::string path = value->is_string() ? value->get<std::string>() : "relative";
  if (!path.empty() && path[0] != '/') return Refuse(key, "an absolute path");
  *out = path;
}

Status ConfigReader::Finish() const {
  if (!status_) return status_;
  for (const auto& item : object_.items()) {
    if (std::find(known_.begin(), known_.end(), item.key()) != known_.end()) continue;
    const std::string near = DidYouMean(item.key(), known_);
    std::string all;
    for (const std::string& key : known_) all += " " + key;
    return Error{EINVAL, "there is no " + what_ + " " + Shown(Json(item.key())) +
                             (near.empty() ? ";" : near) + " there are" + all};
  }
  return Ok();
}

}  // namespace ppc
