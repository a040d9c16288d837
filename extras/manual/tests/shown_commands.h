// SPDX-License-Identifier: Apache-2.0
// Owns finding the command lines of our programs in documents: fenced blocks and `spans`; in Exec
// lines of units; in the README.Debian and manifests of packages; and what tests run of them.
// Threads: pure functions, any thread.
#ifndef PPC_EXTRAS_MANUAL_TESTS_SHOWN_COMMANDS_H_
#define PPC_EXTRAS_MANUAL_TESTS_SHOWN_COMMANDS_H_

#include <string>
#include <vector>

namespace ppc::cli {

struct ShownCommand {
  std::string where;               // "docs/run.md:4"
  std::string program;             // without its directory
  std::vector<std::string> words;  // behind it, as a shell would cut them
  // Between backquotes in a text, where a name alone is a mention.
  bool is_span = false;
};

// The commands of the Markdown `text`.  A line of a fenced block that has the word "ppcctl" and no
// command is added to `missed`.
std::vector<ShownCommand> CommandsOfDocument(const std::string& name, const std::string& text,
                                             std::vector<std::string>* missed);

// The commands of the lines Exec...= of a unit or drop-in.
std::vector<ShownCommand> CommandsOfUnit(const std::string& name, const std::string& text);

// The commands of a README.Debian: indented lines, and spans.
std::vector<ShownCommand> CommandsOfReadme(const std::string& name, const std::string& text);
// The commands of a YAML file: lists of words, lines for a shell, and spans in comments.
std::vector<ShownCommand> CommandsOfManifest(const std::string& name, const std::string& text,
                                             std::vector<std::string>* missed);

struct TestText {
  std::string file;
  std::string text;
};

// The statements of a test that run `command`: of the shell "ppcctl service start", of others
// "service", "start", or a call of the test's own function `by` ("": it has none).
std::vector<std::string> CallsOf(const TestText& test, const std::string& command,
                                 const std::string& by);

}  // namespace ppc::cli

#endif  // PPC_EXTRAS_MANUAL_TESTS_SHOWN_COMMANDS_H_
