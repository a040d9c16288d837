// SPDX-License-Identifier: Apache-2.0
// Owns the command line: verbs, their options, and --help.
#ifndef PPC_TOOLS_PPCCTL_ARGS_H_
#define PPC_TOOLS_PPCCTL_ARGS_H_

#include <cstddef>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "daemon/base/result.h"

namespace ppc::ctl {

inline constexpr int kExitOk = 0;
inline constexpr int kExitFailed = 1;
inline constexpr int kExitUsage = 2;
inline constexpr int kExitUnreachable = 3;

struct Option {
  const char* name;   // "--json"
  const char* value;  // what to write after it in the help, nullptr = a switch
  const char* help;
  char letter = 0;  // "-j", 0 = none
};

class Args {
 public:
  std::vector<std::string> operands;
  std::vector<std::string> command;  // after "--"
  std::map<std::string, std::vector<std::string>> options;

  bool Has(const std::string& name) const { return options.contains(name); }
  // The last one given wins.
  std::string Get(const std::string& name, const std::string& fallback = "") const;
  std::vector<std::string> All(const std::string& name) const;
};

struct Verb {
  const char* name;  // one or two words
  const char* operands;
  const char* summary;
  size_t min_operands;
  size_t max_operands;
  bool takes_command;  // "-- CMD..."
  std::span<const Option> options;
  int (*run)(const Args& args);  // returns the exit status
};

// The verb whose words the arguments start with; nullptr: none.
const Verb* FindVerb(std::span<const Verb> verbs, std::span<char* const> arguments);
size_t WordCount(const Verb& verb);

// `arguments` without the verb's words.  EINVAL names the argument.
Result<Args> ParseArgs(const Verb& verb, std::span<char* const> arguments);

std::string VerbHelp(const Verb& verb);
std::string OverallHelp(std::span<const Verb> verbs);

}  // namespace ppc::ctl

#endif  // PPC_TOOLS_PPCCTL_ARGS_H_
