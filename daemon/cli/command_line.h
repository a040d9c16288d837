// SPDX-License-Identifier: Apache-2.0
// Owns the command lines of our programs: a program is a table of verbs and options, from which
// parsing, --help and extras/manual's man page and completion come.
// Threads: pure functions, any thread.
#ifndef PPC_DAEMON_CLI_COMMAND_LINE_H_
#define PPC_DAEMON_CLI_COMMAND_LINE_H_

#include <map>
#include <span>
#include <string>
#include <vector>

#include "daemon/base/result.h"

namespace ppc::cli {

struct Option {
  const char* name;   // "--json"
  const char* value;  // what to write after it in the help, nullptr = a switch
  const char* help;
  char letter = 0;                // "-j", 0 = none
  const char* choices = nullptr;  // all values there are, with blanks between
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
  const char* name;      // one or two words; "" = the program itself, which has no verbs then
  const char* group;     // its heading in the help
  const char* operands;  // "DIR POLICY [CONFIG]", "FILE...", "[DIR] -- CMD [ARG]..."
  const char* summary;   // the first line is for lists
  std::span<const Option> options;
  int (*run)(const Args& args) = nullptr;  // returns the exit status
};

// The first word of verbs with two.
struct Family {
  const char* name;
  const char* group;
  const char* summary;
};

// A section of the man page and of --help.
struct Note {
  const char* title;
  const char* text;
};

struct Program {
  const char* name;
  int section;  // of the manual
  const char* summary;
  std::span<const Verb> verbs;
  std::span<const Family> families;
  std::span<const Option> common;  // of every verb
  std::span<const Note> notes;
  const char* version;
};

struct Parsed {
  const Verb* verb = nullptr;  // nullptr: print `text` and end
  Args args;
  std::string text;
};

// `arguments` without the program's name.  EINVAL: one line that names the argument and, where one
// is near, what it was perhaps to be.
Result<Parsed> Parse(const Program& program, std::span<char* const> arguments);

// What `--help` prints.
std::string Help(const Program& program);

}  // namespace ppc::cli

#endif  // PPC_DAEMON_CLI_COMMAND_LINE_H_
