// SPDX-License-Identifier: Apache-2.0
// A program's completion for bash: a function with the tree's words in it.
#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include "daemon/cli/tree.h"
#include "extras/manual/manual.h"

namespace ppc::cli {
namespace {

// What completes a value or an operand, by the name it has in the help.
std::string KindOf(std::string_view name) {
  for (const char* word : {"FILE", "PATH"}) {
    if (name.find(word) != std::string_view::npos) return "file";
  }
  for (const char* word : {"DIR", "MNT"}) {
    if (name.find(word) != std::string_view::npos) return "directory";
  }
  return "";
}

std::string OptionWords(const CLI::App* app) {
  std::string words;
  for (const CLI::Option* option : Tree::OptionsOf(app)) {
    for (const std::string& name : option->get_lnames()) words += " --" + name;
  }
  return words;
}

std::string OperandKind(const Tree& tree, const CLI::App* app) {
  const Verb* verb = tree.VerbOf(app);
  std::string kind;
  for (const std::string& operand :
       verb == nullptr ? std::vector<std::string>() : OperandsOf(*verb)) {
    // A file may be named wherever a directory may.
    const std::string one = KindOf(operand);
    if (kind.empty() || one == "file") kind = one;
  }
  return kind;
}

// "list" below "template": " template list".
std::string KeyOf(const CLI::App* app) {
  return app->get_parent() == nullptr ? "" : KeyOf(app->get_parent()) + " " + app->get_name();
}

struct Cases {
  std::string paths;   // all that leads further
  std::string values;  // by path and option
  std::string words;   // by path: options, verbs, kind of operand
};

void Add(const Tree& tree, const CLI::App* app, Cases& cases) {
  const std::string key = KeyOf(app);
  std::string verbs;
  for (const CLI::App* child : Tree::ChildrenOf(app)) {
    cases.paths += (cases.paths.empty() ? "" : " | ") + ("\"" + KeyOf(child) + "\"");
    verbs += " " + child->get_name();
  }
  for (const CLI::Option* option : Tree::OptionsOf(app)) {
    const Option* description = tree.DescriptionOf(app, option);
    if (description == nullptr || description->value == nullptr) continue;
    cases.values += "    \"" + key + ":" + description->name + "\") ";
    cases.values += description->choices == nullptr
                        ? "_ppc_files '" + KindOf(description->value) + "'"
                        : std::string("_ppc_words '") + description->choices + "'";
    cases.values += "; return ;;\n";
  }
  cases.words += "    \"" + key + "\") options='" + OptionWords(app) + "' verbs='" + verbs +
                 "' kind='" + OperandKind(tree, app) + "' ;;\n";
  for (const CLI::App* child : Tree::ChildrenOf(app)) Add(tree, child, cases);
}

std::string Replaced(std::string text, const std::string& what, const std::string& with) {
  for (size_t at = 0; (at = text.find(what, at)) != std::string::npos; at += with.size()) {
    text.replace(at, what.size(), with);
  }
  return text;
}

constexpr const char* kScript = R"(# shellcheck shell=bash
# Completion of @NAME@, made from its own table of options.
_ppc_words() { mapfile -t COMPREPLY < <(compgen -W "$1" -- "${COMP_WORDS[COMP_CWORD]}"); }
_ppc_files() {
  local cur=${COMP_WORDS[COMP_CWORD]}
  compopt -o filenames 2>/dev/null
  case $1 in
    file) mapfile -t COMPREPLY < <(compgen -f -- "$cur") ;;
    directory) mapfile -t COMPREPLY < <(compgen -d -- "$cur") ;;
    *) COMPREPLY=() ;;
  esac
}
_@FUNCTION@() {
  local path="" options="" verbs="" kind="" cur=${COMP_WORDS[COMP_CWORD]} i
  for ((i = 1; i < COMP_CWORD; i++)); do
    if [[ ${COMP_WORDS[i]} == -- ]]; then
      mapfile -t COMPREPLY < <(compgen -A command -f -- "$cur")
      return
    fi
    case "$path ${COMP_WORDS[i]}" in
      @PATHS@) path+=" ${COMP_WORDS[i]}" ;;
    esac
  done
  case "$path:${COMP_WORDS[COMP_CWORD - 1]}" in
@VALUES@    *) ;;
  esac
  case $path in
@WORDS@    *) ;;
  esac
  if [[ $cur == -* ]]; then
    _ppc_words "$options"
  elif [[ -n $verbs ]]; then
    _ppc_words "$verbs"
  else
    _ppc_files "$kind"
  fi
}
complete -F _@FUNCTION@ @NAME@
)";

}  // namespace

std::string BashCompletion(const Tree& tree) {
  Cases cases;
  Add(tree, &tree.root(), cases);
  std::string function = tree.program().name;
  std::replace(function.begin(), function.end(), '-', '_');
  std::string script = Replaced(kScript, "@NAME@", tree.program().name);
  script = Replaced(script, "@FUNCTION@", function);
  script = Replaced(script, "@PATHS@", cases.paths.empty() ? "\"\"" : cases.paths);
  script = Replaced(script, "@VALUES@", cases.values);
  return Replaced(script, "@WORDS@", cases.words);
}

}  // namespace ppc::cli
