// SPDX-License-Identifier: Apache-2.0
// Owns a program's table as a tree of CLI11: what is parsed by and documented from.
// Private to this directory and extras/manual; the only place that includes CLI11.
#ifndef PPC_DAEMON_CLI_TREE_H_
#define PPC_DAEMON_CLI_TREE_H_

#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "daemon/cli/command_line.h"

namespace ppc::cli {

inline constexpr const char* kDumpFlag = "--dump-help";

class Tree {
 public:
  explicit Tree(const Program& program);
  ~Tree() = default;
  Tree(const Tree&) = delete;
  Tree& operator=(const Tree&) = delete;

  const Program& program() const { return program_; }
  CLI::App& root() { return *root_; }
  const CLI::App& root() const { return *root_; }
  // nullptr: it is the root of verbs, or a family.
  const Verb* VerbOf(const CLI::App* app) const;
  // "ppcctl template list"
  static std::string PathOf(const CLI::App* app);
  // In the order of the table; families, too.
  static std::vector<const CLI::App*> ChildrenOf(const CLI::App* app);
  // With a value or without; no operands, nothing hidden.
  static std::vector<const CLI::Option*> OptionsOf(const CLI::App* app);
  const Option* DescriptionOf(const CLI::App* app, const CLI::Option* option) const;

 private:
  CLI::App* Family(const std::string& name);
  void AddVerb(CLI::App* app, const Verb& verb);
  static void AddOption(CLI::App* app, const Option& option);

  const Program& program_;
  std::unique_ptr<CLI::App> root_;
  std::map<const CLI::App*, const Verb*> verbs_;
};

// The words of Verb::operands up to "--".
std::vector<std::string> OperandsOf(const Verb& verb);
bool TakesCommand(const Verb& verb);
// "DIR" of "[DIR]" and "DIR...", as CLI11 is to know it.
std::string BareOperand(const std::string& operand);

// Help by CLI11, with verbs of families in the overall list.
std::shared_ptr<CLI::Formatter> MakeHelpFormat(const Tree& tree);

std::string FirstLine(const std::string& text);

// Returns the text that kDumpFlag prints; `kind` is man or bash.
Result<std::string> Dump(const Tree& tree, const std::string& kind);

}  // namespace ppc::cli

#endif  // PPC_DAEMON_CLI_TREE_H_
