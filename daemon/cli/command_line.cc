// SPDX-License-Identifier: Apache-2.0
#include "daemon/cli/command_line.h"

#include <algorithm>
#include <cerrno>
#include <string_view>

#include "daemon/base/suggest.h"
#include "daemon/cli/tree.h"

namespace ppc::cli {
namespace {

// The verb, family or program that the arguments have led to.
const CLI::App* Deepest(const CLI::App* app) {
  while (!app->get_subcommands().empty()) app = app->get_subcommands().front();
  return app;
}

Error UsageError(const CLI::App* app, const std::string& what) {
  return Error{EINVAL,
               what + (what.ends_with('?') ? " see " : "; see ") + Tree::PathOf(app) + " --help"};
}

std::vector<std::string> OptionNames(const CLI::App* app) {
  std::vector<std::string> names;
  for (const CLI::Option* option : Tree::OptionsOf(app)) {
    for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
  }
  return names;
}

// The names of verbs that can stand here; at the top also "template list" for "template-list", or
// for "lst".
std::vector<std::string> VerbNames(const CLI::App* app) {
  std::vector<std::string> names;
  for (const CLI::App* child : Tree::ChildrenOf(app)) {
    names.push_back(child->get_name());
    for (const CLI::App* verb : Tree::ChildrenOf(child)) {
      names.push_back(child->get_name() + " " + verb->get_name());
    }
  }
  return names;
}

std::string WithFamily(const CLI::App* app, const std::string& word) {
  for (const CLI::App* family : Tree::ChildrenOf(app)) {
    for (const CLI::App* verb : Tree::ChildrenOf(family)) {
      if (verb->get_name() == word) {
        return "; did you mean '" + family->get_name() + " " + word + "'?";
      }
    }
  }
  return DidYouMean(word, VerbNames(app));
}

// Refuses words that the program, the family or the verb does not take.
Status CheckExtras(const Tree& tree, const CLI::App* app) {
  for (; app != nullptr; app = app->get_parent()) {
    const std::vector<std::string> extras = app->remaining();
    if (extras.empty()) continue;
    const std::string& first = extras.front();
    if (first.size() > 1 && first[0] == '-') {
      const std::string name = first.substr(0, first.find('='));
      return UsageError(app, "unknown option '" + first + "'" + DidYouMean(name, OptionNames(app)));
    }
    if (tree.VerbOf(app) != nullptr) {
      const bool takes_command =
          std::string_view(tree.VerbOf(app)->operands).find("-- CMD") != std::string_view::npos;
      return UsageError(app, "'" + first + "' is one operand too many" +
                                 (takes_command ? "; a command comes behind `--`" : ""));
    }
    return UsageError(app, "unknown verb '" + first + "'" + WithFamily(app, first));
  }
  return Ok();
}

Status CheckOperands(const CLI::App* app, const Verb& verb, const Args& args, bool has_command) {
  const std::vector<std::string> operands = OperandsOf(verb);
  const auto needed = std::count_if(operands.begin(), operands.end(),
                                    [](const std::string& operand) { return operand[0] != '['; });
  const char* name = *verb.name == '\0' ? app->get_name().c_str() : verb.name;
  if (args.operands.size() < static_cast<size_t>(needed)) {
    return UsageError(app, std::string(name) + " needs " + verb.operands);
  }
  if (has_command && !TakesCommand(verb)) return UsageError(app, "'--' is not expected here");
  const bool is_needed = std::string_view(verb.operands).find("[-- ") == std::string_view::npos;
  if (args.command.empty() && TakesCommand(verb) && is_needed) {
    return UsageError(app, std::string(name) + " needs a command after --");
  }
  return Ok();
}

Args Collect(const Tree& tree, const CLI::App* app) {
  Args args;
  for (const CLI::Option* option : app->get_options()) {
    if (option->count() == 0) continue;
    if (option->get_positional()) {
      const std::vector<std::string>& words = option->results();
      args.operands.insert(args.operands.end(), words.begin(), words.end());
    } else if (const Option* description = tree.DescriptionOf(app, option)) {
      std::vector<std::string>& values = args.options[description->name];
      values = option->results();
      if (description->value == nullptr) values.assign(values.size(), "");
    }
  }
  return args;
}

// In the order that CLI11 takes, the last first.  "--name=" has an empty value, not the next word.
std::vector<std::string> ReversedWords(std::span<char* const> arguments) {
  std::vector<std::string> words;
  for (const std::string argument : arguments) {
    const bool is_empty = argument.starts_with("--") && argument.find('=') == argument.size() - 1;
    words.push_back(is_empty ? argument.substr(0, argument.size() - 1) : argument);
    if (is_empty) words.emplace_back();
  }
  std::reverse(words.begin(), words.end());
  return words;
}

// CLI11's words in ours.
std::string Complaint(const std::string& what) {
  std::string line = FirstLine(what);
  if (const size_t at = line.find(" was given a disallowed flag override"); at != line.npos) {
    return "--" + line.substr(0, at) + " takes no value";
  }
  const std::string kNeeds = ": 1 required ";
  const size_t at = line.find(kNeeds);
  if (at == line.npos || !line.ends_with(" missing")) return line;
  const size_t begin = at + kNeeds.size();
  return line.substr(0, at) + " needs " + line.substr(begin, line.rfind(' ') - begin);
}

std::string Joined(const std::vector<std::string>& words) {
  std::string text;
  for (const std::string& word : words) text += (text.empty() ? "" : ", ") + word;
  return text;
}

}  // namespace

std::string Args::Get(const std::string& name, const std::string& fallback) const {
  const auto it = options.find(name);
  return it == options.end() ? fallback : it->second.back();
}

std::vector<std::string> Args::All(const std::string& name) const {
  const auto it = options.find(name);
  return it == options.end() ? std::vector<std::string>() : it->second;
}

Result<Parsed> Parse(const Program& program, std::span<char* const> arguments) {
  Tree tree(program);
  CLI::App& root = tree.root();
  // All behind "--" belongs to another program.
  const auto dashes = std::find(arguments.begin(), arguments.end(), std::string_view("--"));
  const bool has_command = dashes != arguments.end();
  std::vector<std::string> words = ReversedWords({arguments.begin(), dashes});
  if (tree.VerbOf(&root) == nullptr && !words.empty() && words.back() == "help") {
    words.pop_back();
    words.insert(words.begin(), "--help");
  }
  Parsed parsed;
  try {
    root.parse(words);
  } catch (const CLI::CallForHelp&) {
    parsed.text = root.help();
    return parsed;
  } catch (const CLI::ParseError& e) {
    return UsageError(Deepest(&root), Complaint(e.what()));
  }
  const CLI::App* app = Deepest(&root);
  if (root[kDumpFlag]->count() > 0) {
    Result<std::string> text = Dump(tree, root[kDumpFlag]->results().back());
    if (!text) return text.error();
    parsed.text = *std::move(text);
    return parsed;
  }
  if (program.version != nullptr && root["--version"]->count() > 0) {
    parsed.text = std::string(program.name) + " " + program.version + "\n";
    return parsed;
  }
  if (Status status = CheckExtras(tree, app); !status) return status.error();
  parsed.verb = tree.VerbOf(app);
  if (parsed.verb == nullptr) {
    return UsageError(app, app->get_name() + " needs a verb: " + Joined(VerbNames(app)));
  }
  parsed.args = Collect(tree, app);
  if (has_command) parsed.args.command.assign(dashes + 1, arguments.end());
  if (Status status = CheckOperands(app, *parsed.verb, parsed.args, has_command); !status) {
    return status.error();
  }
  return parsed;
}

}  // namespace ppc::cli
