// SPDX-License-Identifier: Apache-2.0
// What --help looks like, at every level.
#include <memory>
#include <string>
#include <utility>

#include "daemon/cli/tree.h"

namespace ppc::cli {
namespace {

constexpr size_t kColumn = 26;

class HelpFormat : public CLI::Formatter {
 public:
  explicit HelpFormat(const Tree& tree) : tree_(tree) { column_width(kColumn); }

  std::string make_help(const CLI::App* app, std::string name,
                        CLI::AppFormatMode mode) const override {
    std::string text = make_usage(app, std::move(name)) + app->get_description() + "\n";
    std::string options = make_groups(app, mode);
    // One empty line between two groups is enough.
    while (options.ends_with("\n\n")) options.pop_back();
    text += make_subcommands(app, mode) + options;
    if (app->get_parent() != nullptr) return text;
    for (const Note& note : tree_.program().notes) {
      text += std::string("\n") + note.title + ":\n" + Indented(note.text) + "\n";
    }
    return text;
  }

  std::string make_usage(const CLI::App* app, std::string name) const override {
    std::string line = "Usage: " + name;
    const Verb* verb = tree_.VerbOf(app);
    if (verb == nullptr) return line + " VERB [OPTION]... [OPERAND]...\n";
    line += " [OPTION]...";
    if (*verb->operands != '\0') line += std::string(" ") + verb->operands;
    return line + "\n";
  }

  std::string make_subcommand(const CLI::App* app) const override {
    std::string lines;
    for (const CLI::App* child : Tree::ChildrenOf(app)) lines += make_subcommand(child);
    if (!lines.empty()) return lines;
    const bool is_below = app->get_parent()->get_parent() != nullptr;
    const std::string name =
        is_below ? app->get_parent()->get_name() + " " + app->get_name() : app->get_name();
    std::stringstream out;
    CLI::detail::format_help(out, name, FirstLine(app->get_description()), kColumn);
    return out.str();
  }

  std::string make_option_opts(const CLI::Option* option) const override {
    return option->get_type_size() == 0 ? "" : " " + option->get_type_name();
  }

 private:
  static std::string Indented(const std::string& text) {
    std::string out = "  ";
    for (const char c : text) {
      out += c;
      if (c == '\n') out += "  ";
    }
    return out;
  }

  const Tree& tree_;
};

}  // namespace

std::shared_ptr<CLI::Formatter> MakeHelpFormat(const Tree& tree) {
  return std::make_shared<HelpFormat>(tree);
}

std::string Help(const Program& program) {
  const Tree tree(program);
  return tree.root().help();
}

}  // namespace ppc::cli
