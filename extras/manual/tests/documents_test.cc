// SPDX-License-Identifier: Apache-2.0
// Man pages and completions of our programs say all that can be said to them.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>
#include <vector>

#include "daemon/cli/command_line.h"
#include "daemon/supervisor/options.h"
#include "extras/manual/manual.h"
#include "extras/oci/programs.h"
#include "extras/standalone/options.h"
#include "sim/policy_test_options.h"
#include "tests/unit/has.h"
#include "tests/unit/temp_tree.h"
#include "tools/ppcctl/program.h"

namespace ppc::cli {
namespace {

const std::vector<const Program*>& Programs() {
  static const std::vector<const Program*> all = {&ctl::CtlProgram(),  &control::DaemonProgram(),
                                                  &RunnerProgram(),    &sim::PolicyTestProgram(),
                                                  &oci::HookProgram(), &oci::WorkerProgram()};
  return all;
}

std::string WithoutEscapes(std::string roff) {
  for (const char* escape : {"\\fB", "\\fI", "\\fR", "\\&"}) {
    for (size_t at; (at = roff.find(escape)) != std::string::npos;)
      roff.erase(at, 3 - (escape[1] == '&'));
  }
  roff.erase(std::remove(roff.begin(), roff.end(), '\\'), roff.end());
  return roff;
}

// What the man page says of one verb, up to the next.
std::string Section(const std::string& page, const Verb& verb) {
  const std::string begin = "\n.TP\n" + std::string(verb.name) + (*verb.operands ? " " : "") +
                            verb.operands + "\n" + std::string(verb.summary).substr(0, 20);
  const size_t at = page.find(begin);
  if (at == std::string::npos) return "";
  const size_t end = page.find(".RE\n", at);
  return page.substr(at, end == std::string::npos ? end : end - at);
}

class BashWords {
 public:
  explicit BashWords(const Program& program) : program_(program) {
    tree_.Write("/script", BashCompletion(program));
  }

  // What bash offers for the last of `words`.
  std::string Of(const std::vector<std::string>& words) {
    std::string line = "source " + tree_.Path("/script") + "; COMP_WORDS=(" + program_.name;
    for (const std::string& word : words) line += " '" + word + "'";
    std::string function = program_.name;
    std::replace(function.begin(), function.end(), '-', '_');
    line += "); COMP_CWORD=" + std::to_string(words.size()) + "; _" + function +
            "; printf ' %s ' \"${COMPREPLY[@]}\" >" + tree_.Path("/out");
    tree_.Write("/line", line);
    EXPECT_EQ(std::system(("bash " + tree_.Path("/line")).c_str()), 0) << line;
    return tree_.Read("/out");
  }

 private:
  const Program& program_;
  const TempTree tree_;
};

std::vector<std::string> Words(const std::string& name) {
  const size_t blank = name.find(' ');
  if (name.empty()) return {};
  if (blank == std::string::npos) return {name};
  return {name.substr(0, blank), name.substr(blank + 1)};
}

// Verbs of extras/ stand among those of the core.
TEST(Documents, VerbsStandInTheirOrder) {
  std::string headings, state;
  std::string_view last;
  for (const Verb& verb : ctl::CtlProgram().verbs) {
    if (verb.group != last) headings += std::string(verb.group) + ";";
    last = verb.group;
    if (last == "State") state += std::string(verb.name) + " ";
  }
  EXPECT_EQ(headings, "Policies;Services;State;Page cache;Templates;Start-up artifacts;Nodes;");
  EXPECT_EQ(state, "list status top events logs metrics xpus doctor report support-bundle ");
}

TEST(Documents, TheManPageHasEveryVerbAndOption) {
  for (const Program* program : Programs()) {
    const std::string page = WithoutEscapes(ManPage(*program));
    for (const char* part : {".TH", ".SH NAME", ".SH SYNOPSIS", ".SH OPTIONS", ".SH EXIT STATUS"}) {
      EXPECT_TRUE(Has(page, part)) << program->name << part;
    }
    for (const Verb& verb : program->verbs) {
      const std::string section = *verb.name == '\0' ? page : Section(page, verb);
      EXPECT_NE(section, "") << program->name << " " << verb.name;
      for (const Option& option : verb.options) {
        EXPECT_TRUE(Has(section, option.name)) << verb.name << option.name;
      }
    }
    for (const Option& option : program->common) {
      EXPECT_TRUE(Has(page, option.name)) << option.name;
    }
  }
}

TEST(Documents, TheManPageIsCleanRoff) {
  if (std::system("command -v groff >/dev/null") != 0) GTEST_SKIP() << "no groff here";
  for (const Program* program : Programs()) {
    const TempTree tree;
    const std::string& dir = tree.Root();
    tree.Write("/page", ManPage(*program));
    EXPECT_EQ(std::system(("groff -man -ww -Tascii -z " + dir + "/page 2>" + dir +
                           "/err && test ! -s " + dir + "/err")
                              .c_str()),
              0)
        << program->name;
  }
}

TEST(Documents, TheCompletionHasEveryVerbAndOption) {
  for (const Program* program : Programs()) {
    BashWords bash(*program);
    for (const Verb& verb : program->verbs) {
      std::vector<std::string> words = Words(verb.name);
      if (!words.empty()) {
        const std::string last = words.back();
        words.back() = last.substr(0, 1);
        EXPECT_TRUE(Has(bash.Of(words), " " + last + " ")) << verb.name;
        words.back() = last;
      }
      words.emplace_back("--");
      const std::string offered = bash.Of(words);
      for (const std::span<const Option> options : {verb.options, program->common}) {
        for (const Option& option : options) {
          EXPECT_TRUE(Has(offered, std::string(" ") + option.name + " "))
              << program->name << " " << verb.name << option.name << offered;
        }
      }
    }
  }
}

TEST(Documents, TheCompletionKnowsValuesAndCommands) {
  BashWords bash(ctl::CtlProgram());
  EXPECT_EQ(bash.Of({"reg_policy", "/proc", "maio", "--backend", "o"}), " observer ");
  EXPECT_TRUE(Has(bash.Of({"template", "list", "--dir", "/us"}), " /usr "));
  EXPECT_TRUE(Has(bash.Of({"run", "/proc", "--", "bas"}), " bash "));
  EXPECT_TRUE(Has(bash.Of({"rm_policy", "/us"}), " /usr "));
  // An operand with a verb's name is no verb.
  EXPECT_TRUE(Has(bash.Of({"rm_policy", "run", "--t"}), " --timeout "));
}

}  // namespace
}  // namespace ppc::cli
