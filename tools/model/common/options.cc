// SPDX-License-Identifier: Apache-2.0
// Command-line options of the bench programs: --name VALUE, --name=VALUE, --flag, and words.
// Threads: values only.
#include "tools/model/common/options.h"

#include <cerrno>
#include <cmath>
#include <cstdio>
#include <cstdlib>

#include "daemon/base/json.h"

namespace ppc::bench {

Result<Options> Options::Parse(int argc, char** argv, const std::set<std::string>& with_value,
                               const std::set<std::string>& flags) {
  Options options;
  for (int i = 1; i < argc; ++i) {
    std::string word = argv[i];
    if (word.rfind("--", 0) != 0) {
      options.words_.push_back(word);
      continue;
    }
    word.erase(0, 2);
    const size_t equal = word.find('=');
    const std::string name = word.substr(0, equal);
    if (flags.count(name) != 0 && equal == std::string::npos) {
      options.values_[name] = "";
    } else if (with_value.count(name) == 0) {
      return Error{EINVAL, "unknown option --" + name + "; --help lists them"};
    } else if (equal != std::string::npos) {
      options.values_[name] = word.substr(equal + 1);
    } else if (i + 1 < argc) {
      options.values_[name] = argv[++i];
    } else {
      return Error{EINVAL, "option --" + name + " needs a value"};
    }
  }
  return options;
}

std::string Options::Text(const std::string& name, const std::string& fallback) const {
  const auto found = values_.find(name);
  return found == values_.end() ? fallback : found->second;
}

Result<uint64_t> Options::Number(const std::string& name, uint64_t fallback) const {
  if (!Has(name)) return fallback;
  const std::string text = Text(name, "");
  char* end = nullptr;
  errno = 0;
  const uint64_t value = std::strtoull(text.c_str(), &end, 10);
  if (text.empty() || text[0] < '0' || text[0] > '9' || *end != '\0' || errno != 0)
    return Error{EINVAL, "--" + name + " '" + text + "' is not a whole number"};
  return value;
}

Result<uint64_t> Options::Size(const std::string& name, uint64_t fallback) const {
  if (!Has(name)) return fallback;
  Result<uint64_t> size = ParseSize(Text(name, ""));
  if (!size.ok()) return Error{EINVAL, "--" + name + ": " + size.error().message};
  return size;
}

Result<double> Options::Real(const std::string& name, double fallback) const {
  if (!Has(name)) return fallback;
  const std::string text = Text(name, "");
  char* end = nullptr;
  const double value = std::strtod(text.c_str(), &end);
  if (text.empty() || *end != '\0' || !std::isfinite(value) || value < 0)
    return Error{EINVAL, "--" + name + " '" + text + "' is not a number of at least 0"};
  return value;
}

int Fail(const char* program, const Error& error) {
  std::fprintf(stderr, "%s: %s\n", program, error.message.c_str());
  return 1;
}

}  // namespace ppc::bench
