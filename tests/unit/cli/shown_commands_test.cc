// SPDX-License-Identifier: Apache-2.0
// Every command line of our programs in the documents is one that they take, and a test runs it.
#include "tests/unit/cli/shown_commands.h"

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
#include "daemon/runner/options.h"
#include "daemon/supervisor/options.h"
#include "sim/policy_test_options.h"
#include "tools/ppcctl/program.h"

namespace ppc::cli {
namespace {

namespace fs = std::filesystem;

// What runs the documented commands of a program and verb, with each option that a document has in
// one of its calls: "here" is this test, else files below tests/.
struct RunBy {
  const char* command;
  const char* tests;
  const char* by = "";  // a function of theirs that calls it
};
constexpr std::array kRunBy = {
    RunBy{"ppc-policy-test", "unit/sim/policy_test_test.py", "run"},
    RunBy{"ppc-runner", "e2e/102-standalone.sh", "begin"},
    RunBy{"ppcctl artifact capture", "../extras/artifact/tests/ppcctl_artifact_test.cc"},
    RunBy{"ppcctl artifact list", "../extras/artifact/tests/ppcctl_artifact_test.cc"},
    RunBy{"ppcctl artifact restore", "../extras/artifact/tests/ppcctl_artifact_test.cc"},
    RunBy{"ppcctl artifact rm", "../extras/artifact/tests/ppcctl_artifact_test.cc"},
    RunBy{"ppcctl artifact verify", "../extras/artifact/tests/ppcctl_artifact_test.cc"},
    RunBy{"ppcctl bind-pid", "unit/supervisor/ppcctl_verbs_test.cc"},
    RunBy{"ppcctl doctor", "here e2e/123-doctor.sh"},
    RunBy{"ppcctl drop", "here unit/supervisor/ppcctl_verbs_test.cc"},
    RunBy{"ppcctl explain-pid", "e2e/103-read-limit.sh"},
    RunBy{"ppcctl list", "unit/supervisor/ppcctl_output_test.cc"},
    RunBy{"ppcctl metrics", "../extras/metrics/tests/ppcd_metrics_test.cc"},
    RunBy{"ppcctl off", "unit/supervisor/ppcd_off_test.cc"},
    RunBy{"ppcctl on", "unit/supervisor/ppcd_off_test.cc"},
    RunBy{"ppcctl node", "all/place ../extras/placement/tests/ppcctl_place_test.cc"},
    RunBy{"ppcctl watch-xllm", "all/xllm"},
    RunBy{"ppcctl place", "all/place ../extras/placement/tests/ppcctl_place_test.cc"},
    RunBy{"ppcctl plan", "e2e/080-run.sh"},
    RunBy{"ppcctl reg_policy", "e2e/lib.sh e2e/013-no-bpf.sh"},
    RunBy{"ppcctl report", "e2e/124-report.sh"},
    RunBy{"ppcctl rm_policy", "e2e/021-stop-runner.sh"},
    RunBy{"ppcctl run",
          "e2e/080-run.sh e2e/124-report.sh e2e/125-artifacts-container.sh all/compile "
          "unit/supervisor/ppcctl_test.cc "
          "unit/supervisor/ppcctl_run_test.cc ../extras/artifact/tests/ppcctl_artifact_test.cc "
          "unit/supervisor/ppcctl_service_test.cc"},
    RunBy{"ppcctl service env", "unit/supervisor/ppcctl_service_test.cc"},
    RunBy{"ppcctl service phase", "unit/supervisor/ppcctl_service_test.cc"},
    RunBy{"ppcctl service ready",
          "e2e/124-report.sh unit/supervisor/ppcctl_test.cc nodes/service.py"},
    RunBy{"ppcctl service start", "e2e/121-rights.sh e2e/080-run.sh nodes/service.py"},
    RunBy{"ppcctl service failed", "unit/supervisor/ppcd_failed_test.cc"},
    RunBy{"ppcctl service stop", "e2e/080-run.sh nodes/service.py"},
    RunBy{"ppcctl service-id", "here e2e/080-run.sh unit/supervisor/ppcctl_test.cc"},
    RunBy{"ppcctl status", "e2e/lib.sh"},
    RunBy{"ppcctl support-bundle", "e2e/080-run.sh"},
    RunBy{"ppcctl template list", "here e2e/080-run.sh"},
    RunBy{"ppcctl template rerecord", "unit/supervisor/ppcctl_template_test.cc"},
    RunBy{"ppcctl template synth",
          "e2e/114-large-template.sh unit/supervisor/ppcctl_template_test.cc"},
    RunBy{"ppcctl top", "e2e/080-run.sh"},
    RunBy{"ppcctl warm",
          "unit/supervisor/ppcctl_verbs_test.cc unit/supervisor/ppcctl_template_test.cc"},
    RunBy{"ppcctl xpus", "here unit/supervisor/ppcctl_verbs_test.cc"},
    RunBy{
        "ppcd",
        "e2e/lib.sh e2e/014-system-calls.sh unit/supervisor/daemon_fixture.cc "
        "../extras/metrics/tests/ppcd_metrics_test.cc unit/supervisor/ppcd_service_socket_test.cc "
        "unit/supervisor/ppcd_log_test.cc",
        "StartDaemon"},
};

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

std::vector<std::string> WordsIn(const std::string& text) {
  std::istringstream stream(text);
  return {std::istream_iterator<std::string>(stream), {}};
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
  std::map<std::string, RunBy> listed;
  for (const RunBy& row : kRunBy) {
    EXPECT_TRUE(listed.emplace(row.command, row).second) << row.command << " is there twice";
    EXPECT_TRUE(documented.contains(row.command)) << "no document has " << row.command;
  }
  for (const auto& [command, options] : documented) {
    const auto it = listed.find(command);
    if (it == listed.end()) {
      ADD_FAILURE() << command << " is documented: say in kRunBy which test runs it";
      continue;
    }
    std::vector<std::string> calls;
    for (const std::string& test : WordsIn(it->second.tests)) {
      if (test == "here") continue;
      const TestText text{test, TextOf(fs::path(PPC_TEST_SOURCE_DIR) / "tests" / test)};
      const std::vector<std::string> of_test = CallsOf(text, command, it->second.by);
      EXPECT_FALSE(of_test.empty()) << test << " does not run " << command;
      calls.insert(calls.end(), of_test.begin(), of_test.end());
    }
    for (const std::string& option : options) {
      const bool is_run = std::any_of(calls.begin(), calls.end(), [&](const std::string& call) {
        return HasOption(call, option);
      });
      EXPECT_TRUE(is_run) << command << " " << option
                          << " is documented, and no call of it in the tests listed has that";
    }
  }
}

// Those that need no ppcd, as they stand; directories are ones of our own.
TEST(ShownCommands, ThoseThatNeedNoDaemonWork) {
  char name[] = "/tmp/ppc-shown-XXXXXX";
  const std::string dir = mkdtemp(name);
  std::ofstream(dir + "/x.gguf") << "not much";
  // doctor says that there is no ppcd.
  const std::map<std::string, int> kHere = {{"ppcctl doctor", 1},
                                            {"ppcctl drop", 0},
                                            {"ppcctl service-id", 2},
                                            {"ppcctl template list", 0},
                                            {"ppcctl xpus", 0}};
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
                                           << TextOf(dir + "/out");
    ran.insert(checked.command);
  }
  for (const RunBy& row : kRunBy) {
    const std::vector<std::string> tests = WordsIn(row.tests);
    const bool is_here = std::find(tests.begin(), tests.end(), "here") != tests.end();
    EXPECT_EQ(is_here, ran.contains(row.command)) << row.command;
  }
  fs::remove_all(dir);
}

}  // namespace
}  // namespace ppc::cli
