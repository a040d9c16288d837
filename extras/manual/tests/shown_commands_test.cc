// SPDX-License-Identifier: Apache-2.0
// Every command line of our programs in the documents is one that they take, and a test runs it.
#include "extras/manual/tests/shown_commands.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <regex>
#include <set>
#include <sstream>

#include "daemon/cli/command_line.h"
#include "daemon/supervisor/options.h"
#include "extras/standalone/options.h"
#include "sim/policy_test_options.h"
#include "tests/unit/temp_tree.h"
#include "tools/ppcctl/program.h"

namespace ppc::cli {
namespace {

namespace fs = std::filesystem;

// Functions of tests that call a program without its name, and part of those tests' names.
struct Caller {
  std::string_view command;
  const char* function = "";
  const char* test = "";
};
constexpr std::array kCallers = {Caller{"ppc-policy-test", "run", "policy_test_test"},
                                 Caller{"ppc-runner", "begin", "102-standalone"},
                                 Caller{"ppcd", "StartDaemon", "ppcd_"}};
// Commands that need no ppcd, and their exit status in ThoseThatNeedNoDaemonWork; doctor says that
// there is no ppcd.
const std::map<std::string, int> kHere = {{"ppcctl doctor", 1},
                                          {"ppcctl drop", 0},
                                          {"ppcctl service-id", 2},
                                          {"ppcctl template list", 0},
                                          {"ppcctl xpus", 0}};

const Program& ProgramNamed(const std::string& name) {
  for (const Program* program : {&ctl::CtlProgram(), &control::DaemonProgram(), &RunnerProgram()}) {
    if (name == program->name) return *program;
  }
  return sim::PolicyTestProgram();
}

std::string TextOf(const fs::path& path) {
  std::ifstream file(path);
  EXPECT_TRUE(file) << path;
  return {std::istreambuf_iterator<char>(file), {}};
}

bool IsPlaceholder(const std::string& word) {
  return std::regex_match(word, std::regex("[A-Z_]+"));
}

// "--loader KIND" is an example of all that there are.
void ReplaceChoices(const Program& program, std::vector<std::string>* words) {
  for (const Verb& verb : program.verbs) {
    for (const Option& option : verb.options) {
      if (option.choices == nullptr) continue;
      const std::string choices = option.choices;
      for (size_t i = 0; i + 1 < words->size(); ++i) {
        if ((*words)[i] == option.name && IsPlaceholder((*words)[i + 1])) {
          (*words)[i + 1] = choices.substr(0, choices.find(' '));
        }
      }
    }
  }
}

// Programs say themselves that a value is none of them.
std::string UnknownChoice(const std::string& where, const Parsed& parsed) {
  for (const Option& option : parsed.verb->options) {
    if (option.choices == nullptr) continue;
    const std::string choices = " " + std::string(option.choices) + " ";
    for (const std::string& value : parsed.args.All(option.name)) {
      if (choices.find(" " + value + " ") == std::string::npos) {
        return where + ": " + option.name + " is not '" + value + "'";
      }
    }
  }
  return "";
}

struct Checked {
  std::string problem;  // "" = it can be given like that
  std::string command;  // "ppcctl service start"; "" = help, or a family's name alone
  std::vector<std::string> options;
};

Checked CheckShown(const ShownCommand& shown) {
  const Program& program = ProgramNamed(shown.program);
  std::vector<std::string> words = shown.words;
  if (program.name == std::string("ppcctl") && !words.empty() && words[0] == "VERB") {
    words[0] = "status";
  }
  // Between a runner and its own child.
  if (program.name == std::string("ppc-runner") &&
      words == std::vector<std::string>{"--ask-xpus"}) {
    return {};
  }
  ReplaceChoices(program, &words);
  std::vector<char*> arguments;
  for (std::string& word : words) arguments.push_back(word.data());
  const Result<Parsed> parsed = Parse(program, arguments);
  Checked checked;
  if (!parsed) {
    // In a text a verb's or an option's name may stand alone.
    const bool is_mention =
        shown.is_span && parsed.error().message.find(" needs ") != std::string::npos;
    if (!is_mention) checked.problem = shown.where + ": " + parsed.error().message;
    return checked;
  }
  if (parsed->verb == nullptr) return checked;
  checked.problem = UnknownChoice(shown.where, *parsed);
  checked.command = shown.program;
  if (*parsed->verb->name != '\0') checked.command += std::string(" ") + parsed->verb->name;
  for (const auto& [name, values] : parsed->args.options) checked.options.push_back(name);
  return checked;
}

struct Shown {
  std::vector<ShownCommand> commands;
  std::vector<std::string> missed;
};

Shown AllShown() {
  const fs::path top = PPC_TEST_SOURCE_DIR;
  Shown shown;
  const auto append = [&](const std::vector<ShownCommand>& more) {
    shown.commands.insert(shown.commands.end(), more.begin(), more.end());
  };
  std::vector<fs::path> files = {top / "README.md"};
  for (const char* dir : {"docs", "packaging"}) {
    for (const auto& entry : fs::recursive_directory_iterator(top / dir)) {
      if (entry.is_regular_file()) files.push_back(entry.path());
    }
  }
  std::sort(files.begin(), files.end());
  for (const fs::path& path : files) {
    const std::string name = path.lexically_relative(top);
    if (path.extension() == ".md") append(CommandsOfDocument(name, TextOf(path), &shown.missed));
    if (path.extension() == ".Debian") append(CommandsOfReadme(name, TextOf(path)));
    if (path.extension() == ".yaml") append(CommandsOfManifest(name, TextOf(path), &shown.missed));
    const bool is_unit =
        path.parent_path() == top / "packaging" || path.parent_path() == top / "packaging/examples";
    if (is_unit && path.extension() != ".md") append(CommandsOfUnit(name, TextOf(path)));
  }
  return shown;
}

// This project's tests, those of extras/ as well; not this one, which only names commands.
std::vector<TestText> AllTests() {
  const fs::path top = PPC_TEST_SOURCE_DIR;
  std::vector<TestText> tests;
  for (const char* dir : {"tests", "extras"}) {
    for (const auto& entry : fs::recursive_directory_iterator(top / dir)) {
      const std::string name = entry.path().lexically_relative(top);
      const std::string end = entry.path().extension();
      const bool is_program = end.empty() || end == ".sh" || end == ".py" || end == ".cc";
      const bool is_test = name.starts_with("tests/") || name.find("/tests/") != std::string::npos;
      if (!entry.is_regular_file() || !is_program || !is_test) continue;
      if (name.find("shown_commands") == std::string::npos)
        tests.push_back({name, TextOf(entry.path())});
    }
  }
  return tests;
}

bool HasOption(const std::string& text, const std::string& option) {
  return std::regex_search(text, std::regex(option + "(?![a-z-])"));
}

TEST(ShownCommands, AreCutAsAShellDoes) {
  std::vector<std::string> missed;
  const std::vector<ShownCommand> commands = CommandsOfDocument(
      "x.md",
      "Say `ppcctl plan [DIR]\n[-- CMD]`.\n\n```\n$ ppcctl run --id \"a b\" \\\n  /m -- cmd --opt  "
      "# why\n"
      "systemctl stop x; PPC=off /usr/bin/ppcctl drop /m >/dev/null && ppcd --verbose\n"
      "  remedy: ppcctl reg_policy /m maio '{\"a\": 1}'\nsudo ppcctl list\n```\n",
      &missed);
  ASSERT_EQ(commands.size(), 5U);
  EXPECT_EQ(commands[0].words, (std::vector<std::string>{"plan", "DIR", "--", "CMD"}));
  EXPECT_TRUE(commands[0].is_span);
  EXPECT_EQ(commands[1].words,
            (std::vector<std::string>{"run", "--id", "a b", "/m", "--", "cmd", "--opt"}));
  EXPECT_EQ(commands[2].words, (std::vector<std::string>{"drop", "/m"}));
  EXPECT_EQ(commands[3].program, "ppcd");
  EXPECT_EQ(commands[4].words,
            (std::vector<std::string>{"reg_policy", "/m", "maio", "{\"a\": 1}"}));
  EXPECT_EQ(missed, std::vector<std::string>{"x.md:9: sudo ppcctl list"});
  EXPECT_EQ(
      CommandsOfUnit("u", "#ExecStop=-+/usr/bin/ppcctl service stop %f\nUser=ppcctl\n").size(), 1U);
}

TEST(ShownCommands, AreFoundInPackagesFilesToo) {
  const std::vector<ShownCommand> readme = CommandsOfReadme(
      "r", "Title\n=====\n\nSee `ppcctl\nlist`, or:\n\n  ppcctl drop /m   # now\n  mokutil x\n");
  ASSERT_EQ(readme.size(), 2U);
  EXPECT_EQ(readme[0].words, (std::vector<std::string>{"drop", "/m"}));
  EXPECT_EQ(readme[1].words, std::vector<std::string>{"list"});
  std::vector<std::string> missed;
  const std::vector<ShownCommand> manifest = CommandsOfManifest(
      "y",
      "# `ppcctl status` tells, and ppcctl alone is no command\nname: ppcd\n"
      "args: [\"ppcd\", \"--state-dir\", \"/run/x\"]\n"
      "  - until ppcctl list >/dev/null; do sleep 1; done; ppcctl off\n"
      "  trap 'ppcctl service stop --id \"$S\" /m; exit 0' TERM\n  image: ppcctl\n",
      &missed);
  ASSERT_EQ(manifest.size(), 5U);
  EXPECT_EQ(manifest[0].words, (std::vector<std::string>{"--state-dir", "/run/x"}));
  EXPECT_EQ(manifest[1].words, std::vector<std::string>{"list"});
  EXPECT_EQ(manifest[2].words, std::vector<std::string>{"off"});
  EXPECT_EQ(manifest[3].words, (std::vector<std::string>{"service", "stop", "--id", "$S", "/m"}));
  EXPECT_EQ(manifest[4].words, std::vector<std::string>{"status"});
  EXPECT_EQ(missed, std::vector<std::string>{"y:6:   image: ppcctl"});
}

// This check can fail.
TEST(ShownCommands, WhatAProgramDoesNotTakeIsFound) {
  const std::array<std::pair<const char*, const char*>, 7> kPlanted = {{
      {"ppcctl run --reprot x -- true", "did you mean '--report'?"},
      {"ppcctl stauts /models", "did you mean 'status'?"},
      {"ppcctl reg_policy /models", "reg_policy needs DIR POLICY [CONFIG]"},
      {"ppcctl rm_policy /models /more", "one operand too many"},
      {"ppcctl reg_policy /models maio --backend bpf", "--backend is not 'bpf'"},
      {"ppcd --metric 127.0.0.1:1", "did you mean '--metrics'?"},
      {"ppc-policy-test x.so --olny read", "did you mean '--only'?"},
  }};
  for (const auto& [line, complaint] : kPlanted) {
    std::vector<std::string> missed;
    const std::string text = "```\n" + std::string(line) + "\n```\n";
    const std::vector<ShownCommand> commands = CommandsOfDocument("x.md", text, &missed);
    ASSERT_EQ(commands.size(), 1U) << line;
    EXPECT_NE(CheckShown(commands[0]).problem.find(complaint), std::string::npos)
        << line << ": " << CheckShown(commands[0]).problem;
  }
  EXPECT_NE(CheckShown({"x.md:1", "ppcctl", {"run", "--reprot"}, true}).problem, "");
  EXPECT_EQ(CheckShown({"x.md:1", "ppcctl", {"run"}, true}).problem, "");
}

// Nor does an option count that another command of the same test has.
TEST(ShownCommands, AnOptionIsOfItsOwnCall) {
  const auto has = [](const char* file, const std::string& text) {
    const std::vector<std::string> calls = CallsOf({file, text}, "ppcctl service stop", "End");
    return std::any_of(calls.begin(), calls.end(),
                       [](const std::string& call) { return HasOption(call, "--id"); });
  };
  EXPECT_TRUE(has("x.sh", "ppcctl service stop /m \\\n  --id a\n"));
  EXPECT_FALSE(has("x.sh", "ppcctl service stop /m\nppcctl service start --id a\n"));
  EXPECT_FALSE(has("x.sh", "ppcctl service stopped --id a\n"));
  EXPECT_TRUE(has("x.cc", "Ctl({\"service\", \"stop\",\n     \"--id\", \"a\"});"));
  EXPECT_FALSE(has("x.cc", "Ctl({\"service\", \"stop\"}); Ctl({\"plan\", \"--id\"});"));
  EXPECT_TRUE(has("x.cc", "End({\"--id\", \"a\"});"));
  EXPECT_TRUE(has("x.py", "run(\"ppcctl\", \"service\", \"stop\",\n    str(1), \"--id\")"));
  EXPECT_FALSE(has("x.py", "run(\"ppcctl\", \"service\", \"stop\")\nrun(\"plan\", \"--id\")"));
}

TEST(ShownCommands, AreTakenByTheirPrograms) {
  const Shown shown = AllShown();
  EXPECT_GE(shown.commands.size(), 60U);
  for (const std::string& line : shown.missed) ADD_FAILURE() << "not understood: " << line;
  for (const ShownCommand& command : shown.commands) EXPECT_EQ(CheckShown(command).problem, "");
}

TEST(ShownCommands, AreRunByTests) {
  std::map<std::string, std::set<std::string>> documented;  // command -> options
  for (const ShownCommand& shown : AllShown().commands) {
    const Checked checked = CheckShown(shown);
    if (checked.command.empty()) continue;
    documented[checked.command].insert(checked.options.begin(), checked.options.end());
  }
  const std::vector<TestText> tests = AllTests();
  for (const auto& [command, options] : documented) {
    const auto* const caller = std::ranges::find(kCallers, command, &Caller::command);
    std::vector<std::string> calls;
    for (const TestText& test : tests) {
      const bool has_caller =
          caller != kCallers.end() && test.file.find(caller->test) != std::string::npos;
      const std::vector<std::string> of_test =
          CallsOf(test, command, has_caller ? caller->function : "");
      calls.insert(calls.end(), of_test.begin(), of_test.end());
    }
    EXPECT_TRUE(!calls.empty() || kHere.contains(command))
        << command << " is documented, and no test runs it";
    for (const std::string& option : options) {
      const bool is_run = std::any_of(calls.begin(), calls.end(), [&](const std::string& call) {
        return HasOption(call, option);
      });
      EXPECT_TRUE(is_run) << command << " " << option
                          << " is documented, and no call of it in a test has that";
    }
  }
}

// Those that need no ppcd, as they stand; directories are ones of our own.
TEST(ShownCommands, ThoseThatNeedNoDaemonWork) {
  const TempTree tree;
  const std::string& dir = tree.Root();
  tree.Write("/x.gguf", "not much");
  std::set<std::string> ran;
  for (const ShownCommand& shown : AllShown().commands) {
    const Checked checked = CheckShown(shown);
    const bool is_help = checked.problem.empty() && checked.command.empty() && !shown.is_span;
    if (!is_help && (!kHere.contains(checked.command) || shown.words.size() > 2)) continue;
    std::string line = "PPC_TEMPLATE_DIR=" + dir + " PPC_SOCKET=" + dir +
                       "/none PPC_SERVICE_SOCKET=" + dir + "/none " PPC_TEST_BIN_DIR "/" +
                       shown.program;
    for (const std::string& word : shown.words) {
      line += " '" + (word.starts_with('/') || IsPlaceholder(word) ? dir : word) + "'";
    }
    // In a text `ppcctl drop` alone is a name.
    if (shown.is_span && checked.command == "ppcctl drop" && shown.words.size() == 1) continue;
    const int status = std::system((line + " >" + dir + "/out 2>&1 </dev/null").c_str());
    const int wanted = is_help ? 0 : kHere.at(checked.command);
    EXPECT_EQ(WEXITSTATUS(status), wanted) << shown.where << ": " << line << "\n"
                                           << tree.Read("/out");
    ran.insert(checked.command);
  }
  for (const auto& [command, status] : kHere) EXPECT_TRUE(ran.contains(command)) << command;
}

}  // namespace
}  // namespace ppc::cli
