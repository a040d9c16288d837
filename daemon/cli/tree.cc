// SPDX-License-Identifier: Apache-2.0
#include "daemon/cli/tree.h"

#include <algorithm>
#include <sstream>
#include <string_view>

namespace ppc::cli {
namespace {

CLI::App* FindFamily(CLI::App& root, const std::string& name) {
  const std::vector<CLI::App*> found =
      root.get_subcommands([&name](const CLI::App* app) { return app->get_name() == name; });
  return found.empty() ? nullptr : found.front();
}

bool IsMany(const std::string& operand) { return operand.find("...") != std::string::npos; }

}  // namespace

std::vector<std::string> OperandsOf(const Verb& verb) {
  std::vector<std::string> operands;
  std::istringstream words(verb.operands);
  for (std::string word; words >> word && word != "--" && word != "[--";) operands.push_back(word);
  return operands;
}

bool TakesCommand(const Verb& verb) {
  return std::string_view(verb.operands).find("-- ") != std::string_view::npos;
}

std::string BareOperand(const std::string& operand) {
  const size_t begin = operand.find_first_not_of('[');
  std::string name = operand.substr(begin, operand.find_first_of("].", begin) - begin);
  std::ranges::replace(name, '=', '-');  // CLI11 2.4 refuses it in a name
  return name;
}

std::string FirstLine(const std::string& text) { return text.substr(0, text.find('\n')); }

Tree::Tree(const Program& program)
    : program_(program), root_(std::make_unique<CLI::App>(program.summary, program.name)) {
  root_->formatter(MakeHelpFormat(*this));
  root_->set_help_flag("-h,--help", "explain this");
  const std::string about_version = "print the version";
  if (program.version != nullptr) root_->add_flag("--version", about_version);
  // For the build, which makes the manual of it.
  root_->add_option(kDumpFlag, [](const CLI::results_t&) { return true; })->group("");
  root_->allow_extras();
  // One verb: a later operand may have a verb's name.
  root_->require_subcommand(0, 1);
  for (const Verb& verb : program.verbs) {
    if (*verb.name == '\0') {
      AddVerb(root_.get(), verb);
      continue;
    }
    const std::string name = verb.name;
    const size_t blank = name.find(' ');
    CLI::App* parent = blank == std::string::npos ? root_.get() : Family(name.substr(0, blank));
    std::string word = blank == std::string::npos ? name : name.substr(blank + 1);
    CLI::App* app = parent->add_subcommand(word, verb.summary);
    app->group(verb.group);
    // All but the paper's have hyphens; so these may, too.
    std::replace(word.begin(), word.end(), '_', '-');
    if (word != app->get_name()) app->alias(word);
    AddVerb(app, verb);
  }
}

// Where its first verb is, so that help shows it there.
CLI::App* Tree::Family(const std::string& name) {
  if (CLI::App* known = FindFamily(*root_, name)) return known;
  const auto family = std::find_if(program_.families.begin(), program_.families.end(),
                                   [&name](const auto& each) { return each.name == name; });
  CLI::App* app = root_->add_subcommand(name, family->summary);
  app->group(family->group);
  app->allow_extras();
  app->require_subcommand(0, 1);
  return app;
}

void Tree::AddVerb(CLI::App* app, const Verb& verb) {
  verbs_[app] = &verb;
  app->allow_extras();
  for (const std::string& operand : OperandsOf(verb)) {
    CLI::Option* option =
        app->add_option(BareOperand(operand), [](const CLI::results_t&) { return true; });
    if (!IsMany(operand)) continue;
    option->expected(1, CLI::detail::expected_max_vector_size)->allow_extra_args();
  }
  for (const Option& option : verb.options) AddOption(app, option);
  for (const Option& option : program_.common) AddOption(app, option);
}

void Tree::AddOption(CLI::App* app, const Option& option) {
  const std::string letter = option.letter == 0 ? "" : std::string("-") + option.letter + ",";
  if (option.value == nullptr) {
    const std::string help = option.help;
    app->add_flag(letter + option.name, help)->disable_flag_override();
    return;
  }
  app->add_option(
         letter + option.name, [](const CLI::results_t&) { return true; }, option.help)
      ->type_name(option.value)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
}

const Verb* Tree::VerbOf(const CLI::App* app) const {
  const auto it = verbs_.find(app);
  return it == verbs_.end() ? nullptr : it->second;
}

std::string Tree::PathOf(const CLI::App* app) {
  const CLI::App* parent = app->get_parent();
  return parent == nullptr ? app->get_name() : PathOf(parent) + " " + app->get_name();
}

std::vector<const CLI::App*> Tree::ChildrenOf(const CLI::App* app) {
  return app->get_subcommands([](const CLI::App* child) { return !child->get_name().empty(); });
}

std::vector<const CLI::Option*> Tree::OptionsOf(const CLI::App* app) {
  return app->get_options([](const CLI::Option* option) {
    return option->nonpositional() && !option->get_group().empty();
  });
}

const Option* Tree::DescriptionOf(const CLI::App* app, const CLI::Option* option) const {
  const Verb* verb = VerbOf(app);
  for (const std::span<const Option> options :
       {verb == nullptr ? std::span<const Option>() : verb->options, program_.common}) {
    for (const Option& description : options) {
      if (option->check_name(description.name)) return &description;
    }
  }
  return nullptr;
}

}  // namespace ppc::cli
