// SPDX-License-Identifier: Apache-2.0
#include "tools/ppcctl/args.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <string_view>

namespace ppc::ctl {
namespace {

constexpr size_t kHelpColumn = 26;

const Option* FindOption(const Verb& verb, std::string_view given) {
  for (const Option& option : verb.options) {
    if (given == option.name) return &option;
    if (option.letter != 0 && given.size() == 2 && given[0] == '-' && given[1] == option.letter) {
      return &option;
    }
  }
  return nullptr;
}

std::string Column(const std::string& left, const std::string& right) {
  std::string line = "  " + left;
  line += line.size() + 2 > kHelpColumn ? "\n" + std::string(kHelpColumn, ' ')
                                        : std::string(kHelpColumn - line.size(), ' ');
  return line + right + "\n";
}

std::string Usage(const Verb& verb) {
  std::string line = std::string("ppcctl ") + verb.name;
  if (!verb.options.empty()) line += " [OPTION]...";
  if (*verb.operands != '\0') line += std::string(" ") + verb.operands;
  return line;
}

Error UsageError(const Verb& verb, const std::string& what) {
  return Error{EINVAL, what + "; see ppcctl " + verb.name + " --help"};
}

Status CheckCounts(const Verb& verb, const Args& args) {
  if (args.operands.size() < verb.min_operands) {
    return UsageError(verb, std::string(verb.name) + " needs " + verb.operands);
  }
  if (args.operands.size() > verb.max_operands) {
    return UsageError(verb, "'" + args.operands[verb.max_operands] + "' is one operand too many");
  }
  if (verb.takes_command && args.command.empty()) {
    return UsageError(verb, std::string(verb.name) + " needs a command after --");
  }
  return Ok();
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

size_t WordCount(const Verb& verb) {
  return 1 + static_cast<size_t>(std::count(verb.name, verb.name + std::strlen(verb.name), ' '));
}

const Verb* FindVerb(std::span<const Verb> verbs, std::span<char* const> arguments) {
  for (const Verb& verb : verbs) {
    const size_t words = WordCount(verb);
    if (arguments.size() < words) continue;
    std::string given = arguments[0];
    for (size_t i = 1; i < words; ++i) given += std::string(" ") + arguments[i];
    if (given == verb.name) return &verb;
  }
  return nullptr;
}

Result<Args> ParseArgs(const Verb& verb, std::span<char* const> arguments) {
  Args args;
  for (size_t i = 0; i < arguments.size(); ++i) {
    const std::string argument = arguments[i];
    if (argument == "--") {
      if (!verb.takes_command) return UsageError(verb, "'--' is not expected here");
      args.command.assign(arguments.begin() + static_cast<std::ptrdiff_t>(i) + 1, arguments.end());
      break;
    }
    if (argument == "--help" || argument == "-h") {
      args.options["--help"].emplace_back();
      return args;
    }
    if (argument.size() < 2 || argument[0] != '-') {
      args.operands.push_back(argument);
      continue;
    }
    const bool is_long = argument.starts_with("--");
    const size_t equals = is_long ? argument.find('=') : std::string::npos;
    const Option* option = FindOption(verb, std::string_view(argument).substr(0, equals));
    if (option == nullptr) return UsageError(verb, "unknown option '" + argument + "'");
    if (option->value == nullptr) {
      if (equals != std::string::npos) {
        return UsageError(verb, std::string(option->name) + " takes no value");
      }
      args.options[option->name].emplace_back();
    } else if (equals != std::string::npos) {
      args.options[option->name].push_back(argument.substr(equals + 1));
    } else if (i + 1 < arguments.size()) {
      args.options[option->name].emplace_back(arguments[++i]);
    } else {
      return UsageError(verb, std::string(option->name) + " needs " + option->value);
    }
  }
  if (Status status = CheckCounts(verb, args); !status) return status.error();
  return args;
}

std::string VerbHelp(const Verb& verb) {
  std::string text = "Usage: " + Usage(verb) + "\n" + verb.summary + "\n";
  if (!verb.options.empty()) text += "\n";
  for (const Option& option : verb.options) {
    std::string left = option.letter == 0 ? "" : std::string("-") + option.letter + ", ";
    left += option.name;
    if (option.value != nullptr) left += std::string(" ") + option.value;
    text += Column(left, option.help);
  }
  return text;
}

std::string OverallHelp(std::span<const Verb> verbs) {
  std::string text =
      "Usage: ppcctl VERB [OPTION]... [OPERAND]...\n"
      "Controls the cache policies of PPC mounts through ppcd.\n\n";
  for (const Verb& verb : verbs) {
    const std::string summary = verb.summary;
    text += Column(verb.name, summary.substr(0, summary.find('\n')));
  }
  text +=
      "\nppcctl VERB --help explains a verb.  The daemon is asked at $PPC_SOCKET\n"
      "(default /run/ppc/ppcd.sock).\n"
      "Exit status: 0 done, 1 failed, 2 wrong usage, 3 ppcd is unreachable; run: that of CMD, or\n"
      "125 where --required is not met.\n";
  return text;
}

}  // namespace ppc::ctl
