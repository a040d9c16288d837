// SPDX-License-Identifier: Apache-2.0
// Command-line options of the bench programs: --name VALUE, --name=VALUE, --flag, and words.
// Threads: a value.
#ifndef PPC_TOOLS_MODEL_COMMON_OPTIONS_H_
#define PPC_TOOLS_MODEL_COMMON_OPTIONS_H_

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "daemon/base/result.h"

namespace ppc::bench {

class Options {
 public:
  // with_value and flags are the names a program knows, without the dashes.
  static Result<Options> Parse(int argc, char** argv, const std::set<std::string>& with_value,
                               const std::set<std::string>& flags);

  bool Has(const std::string& name) const { return values_.count(name) != 0; }
  std::string Text(const std::string& name, const std::string& fallback) const;
  // Numbers; an error names the option.  Size accepts suffixes, "16M".
  Result<uint64_t> Number(const std::string& name, uint64_t fallback) const;
  Result<uint64_t> Size(const std::string& name, uint64_t fallback) const;
  Result<double> Real(const std::string& name, double fallback) const;
  const std::vector<std::string>& words() const { return words_; }

 private:
  std::map<std::string, std::string> values_;
  std::vector<std::string> words_;
};

// Prints "PROGRAM: message" on standard error and returns 1, for main().
int Fail(const char* program, const Error& error);

}  // namespace ppc::bench

#endif  // PPC_TOOLS_MODEL_COMMON_OPTIONS_H_
