// SPDX-License-Identifier: Apache-2.0
// A program's page for man(1): roff with the man macros.
#include <algorithm>
#include <cctype>
#include <string>

#include "daemon/cli/tree.h"
#include "extras/manual/manual.h"

namespace ppc::cli {
namespace {

// Filled text, in which nothing is taken for a request or an escape.
std::string Roff(const std::string& text) {
  std::string out;
  bool is_start = true;
  for (const char c : text) {
    if (is_start && (c == '.' || c == '\'')) out += "\\&";
    if (c == '\\') {
      out += "\\e";
    } else if (c == '-') {
      out += "\\-";
    } else if (!is_start || c != ' ') {
      out += c;
    }
    is_start = c == '\n' || (is_start && c == ' ');
  }
  return out;
}

std::string Bold(const std::string& text) { return "\\fB" + Roff(text) + "\\fR"; }
std::string Italic(const std::string& text) { return "\\fI" + Roff(text) + "\\fR"; }

std::string Upper(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(),
                 [](unsigned char c) { return static_cast<char>(std::toupper(c)); });
  return text;
}

std::string WithoutStop(std::string sentence) {
  if (sentence.ends_with('.')) sentence.pop_back();
  return sentence;
}

std::string OptionItem(const CLI::Option* option) {
  std::string line = ".TP\n";
  for (const std::string& letter : option->get_snames()) line += Bold("-" + letter) + ", ";
  for (const std::string& name : option->get_lnames()) line += Bold("--" + name);
  if (option->get_type_size() != 0) line += " " + Italic(option->get_type_name());
  return line + "\n" + Roff(option->get_description()) + "\n";
}

// What a verb has of its own; the common ones are told once.
std::string OptionItems(const Tree& tree, const CLI::App* app, bool is_common) {
  std::string items;
  for (const CLI::Option* option : Tree::OptionsOf(app)) {
    const Option* description = tree.DescriptionOf(app, option);
    const bool is_ours =
        std::any_of(tree.program().common.begin(), tree.program().common.end(),
                    [description](const Option& common) { return description == &common; });
    if ((description == nullptr || is_ours) == is_common) items += OptionItem(option);
  }
  return items;
}

std::string VerbItem(const Tree& tree, const CLI::App* app) {
  std::string text;
  const Verb* verb = tree.VerbOf(app);
  for (const CLI::App* child : Tree::ChildrenOf(app)) text += VerbItem(tree, child);
  if (verb == nullptr) return text;
  text += ".TP\n" + Bold(verb->name);
  if (*verb->operands != '\0') text += " " + Italic(verb->operands);
  text += "\n" + Roff(verb->summary) + "\n";
  const std::string options = OptionItems(tree, app, /*is_common=*/false);
  return options.empty() ? text : text + ".RS\n" + options + ".RE\n";
}

std::string Verbs(const Tree& tree) {
  std::string text;
  std::string group;
  for (const CLI::App* app : Tree::ChildrenOf(&tree.root())) {
    if (app->get_group() != group) {
      group = app->get_group();
      text += ".SS " + Roff(group) + "\n";
    }
    text += VerbItem(tree, app);
  }
  return text.empty() ? "" : ".SH VERBS\n" + text;
}

}  // namespace

std::string ManPage(const Tree& tree) {
  const Program& program = tree.program();
  const CLI::App* root = &tree.root();
  const Verb* self = tree.VerbOf(root);
  const std::string version = program.version == nullptr ? "" : program.version;
  std::string page = ".\\\" Made from the program's own table of options.\n.TH " +
                     Upper(program.name) + " " + std::to_string(program.section) + " \"\" \"ppc " +
                     version + "\" \"" + (program.section == 8 ? "Administration" : "Programs") +
                     "\"\n.SH NAME\n" + Roff(program.name) + " \\- " +
                     Roff(WithoutStop(FirstLine(program.summary))) + "\n.SH SYNOPSIS\n" +
                     Bold(program.name);
  page += " " + Roff(self == nullptr ? "VERB [OPTION]... [OPERAND]..." : "[OPTION]...");
  if (self != nullptr && *self->operands != '\0') page += " " + Roff(self->operands);
  page += "\n.SH DESCRIPTION\n" + Roff(program.summary) + "\n" + Verbs(tree);
  page += ".SH OPTIONS\n";
  if (self != nullptr) page += OptionItems(tree, root, /*is_common=*/false);
  // Every verb has the common ones.
  const CLI::App* any = root;
  while (!Tree::ChildrenOf(any).empty()) any = Tree::ChildrenOf(any).front();
  page += OptionItems(tree, any, /*is_common=*/true);
  if (any != root) {
    page += ".TP\n" + Bold("--version") + "\nprint the version\n";
  }
  for (const Note& note : program.notes) {
    page += ".SH " + Upper(note.title) + "\n" + Roff(note.text) + "\n";
  }
  return page;
}

}  // namespace ppc::cli
