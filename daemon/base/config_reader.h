// SPDX-License-Identifier: Apache-2.0
// Owns reading a configuration, a JSON object, into variables.  The one error names the key, the
// permitted values with range and unit, and the value found; for an unknown key the nearest known
// one.
// Threads: one.
#ifndef PPC_DAEMON_BASE_CONFIG_READER_H_
#define PPC_DAEMON_BASE_CONFIG_READER_H_

#include <cstdint>
#include <initializer_list>
#include <string>
#include <utility>
#include <vector>

#include "daemon/base/json.h"
#include "daemon/base/result.h"

namespace ppc {

// A missing or null key leaves the variable unchanged.  After an error nothing else is read.
class ConfigReader {
 public:
  // `object` must outlive this; `what` stands before the key in errors ("runtime option").
  ConfigReader(const Json& object, std::string what) : object_(object), what_(std::move(what)) {}

  // Within `least` to `most`; `unit` is plural, "" = a plain number.
  template <typename T>
  void Int(const char* key, T* out, int64_t least, int64_t most, const char* unit = "") {
    auto value = static_cast<int64_t>(*out);
    if (ReadInt(key, &value, least, most, unit)) *out = static_cast<T>(value);
  }
  // Bytes, or text such as "16M".
  void Size(const char* key, uint64_t* out);
  // Within `least` to `most`; is_open: `least` itself is excluded.
  void Number(const char* key, double* out, double least, double most, bool is_open = false);
  void Bool(const char* key, bool* out);
  // Not empty.
  void Text(const char* key, std::string* out);
  // One of several names.
  template <typename Enum>
  void Choice(const char* key, std::initializer_list<std::pair<const char*, Enum>> choices,
              Enum* out) {
    const Json* value = Find(key);
    if (value == nullptr) return;
    std::string names;
    for (const auto& [name, meaning] : choices) {
      if (*value == name) {
        *out = meaning;
        return;
      }
      names += (names.empty() ? "" : ", ") + std::string(name);
    }
    Refuse(key, "one of " + names);
  }
  // "" or an absolute path.
  void Path(const char* key, std::string* out);

  // The raw value; nullptr: absent, null, or after an error.
  const Json* Find(const char* key);
  // Sets the error "`key` must be `wanted`, not ..." unless there is one.
  void Refuse(const char* key, const std::string& wanted);

  // The first error so far.
  const Status& status() const { return status_; }
  // The first error; else EINVAL if the object has a key that was never read.
  Status Finish() const;

 private:
  bool ReadInt(const char* key, int64_t* out, int64_t least, int64_t most, const char* unit);

  const Json& object_;
  const std::string what_;
  std::vector<std::string> known_;
  Status status_ = Ok();
};

}  // namespace ppc

#endif  // PPC_DAEMON_BASE_CONFIG_READER_H_
