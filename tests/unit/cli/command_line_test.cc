// SPDX-License-Identifier: Apache-2.0
#include "daemon/cli/command_line.h"

#include <gtest/gtest.h>

#include <array>
#include <vector>

#include "daemon/base/suggest.h"
#include "tests/unit/has.h"

namespace ppc::cli {
namespace {

constexpr std::array kCommon = {Option{"--json", nullptr, "print JSON", 'j'}};
constexpr std::array kShowOptions = {
    Option{"--dir", "DIR", "where"}, Option{"--tag", "TEXT", "repeat it"},
    Option{"--kind", "KIND", "which", 0, "one two"}, Option{"--all", nullptr, "everything", 'a'}};
constexpr std::array kFamilies = {Family{"thing", "Things", "All about things."}};
const std::array kVerbs = {
    Verb{"set_up", "First", "DIR [NAME]", "Set it up.\nMore of that.", {}},
    Verb{"thing show", "Things", "ID", "Show a thing.", kShowOptions},
    Verb{"thing join", "Things", "FILE...", "Join things.", {}},
    Verb{"start", "First", "[DIR] -- CMD [ARG]...", "Start CMD.", kShowOptions},
};
constexpr std::array kNotes = {Note{"Exit status", "0 or not."}};
const Program kProgram = {"prog", 1, "Does things.", kVerbs, kFamilies, kCommon, kNotes, "1.2"};

Result<Parsed> ParseWords(std::vector<std::string> words, const Program& program = kProgram) {
  std::vector<char*> arguments;
  for (std::string& word : words) arguments.push_back(word.data());
  return Parse(program, arguments);
}

std::string ErrorOf(const std::vector<std::string>& words) {
  const Result<Parsed> parsed = ParseWords(words);
  return parsed ? "" : parsed.error().message;
}

TEST(CommandLine, OptionsAndOperandsInAnyOrder) {
  const Parsed parsed =
      Value(ParseWords({"thing", "show", "--tag", "a", "id", "--tag=b", "-aj", "--dir", "-2"}));
  EXPECT_STREQ(parsed.verb->name, "thing show");
  EXPECT_EQ(parsed.args.operands, std::vector<std::string>{"id"});
  EXPECT_EQ(parsed.args.All("--tag"), (std::vector<std::string>{"a", "b"}));
  EXPECT_EQ(parsed.args.Get("--tag"), "b");
  EXPECT_EQ(parsed.args.Get("--dir"), "-2");
  EXPECT_TRUE(parsed.args.Has("--all"));
  EXPECT_TRUE(parsed.args.Has("--json"));
  EXPECT_FALSE(parsed.args.Has("--kind"));
}

TEST(CommandLine, WordsStayAsTheyAre) {
  const Parsed lists = Value(ParseWords({"set_up", "[1,2]", R"({"a":[1,2]})"}));
  EXPECT_EQ(lists.args.operands, (std::vector<std::string>{"[1,2]", R"({"a":[1,2]})"}));
  // An operand may have the name of a verb, of this level or another.
  const Parsed names = Value(ParseWords({"set_up", "thing", "set_up"}));
  EXPECT_EQ(names.args.operands, (std::vector<std::string>{"thing", "set_up"}));
  EXPECT_EQ(Value(ParseWords({"thing", "join", "show", "start", "join"})).args.operands.size(), 3U);
  const Parsed empty = Value(ParseWords({"thing", "show", "--dir=", "id"}));
  EXPECT_EQ(empty.args.Get("--dir", "none"), "");
  EXPECT_EQ(empty.args.operands, std::vector<std::string>{"id"});
}

TEST(CommandLine, ACommandIsNotLookedAt) {
  const Parsed parsed = Value(ParseWords(
      {"start", "--all", "/dir", "--", "cmd", "--all", "--nonsense", "--", "-h", "thing"}));
  EXPECT_EQ(parsed.args.operands, std::vector<std::string>{"/dir"});
  EXPECT_EQ(parsed.args.command,
            (std::vector<std::string>{"cmd", "--all", "--nonsense", "--", "-h", "thing"}));
  EXPECT_EQ(parsed.args.All("--all").size(), 1U);
}

TEST(CommandLine, MistypedNamesAreGuessed) {
  EXPECT_TRUE(Has(ErrorOf({"thing", "showw", "id"}), "did you mean 'show'?"));
  EXPECT_TRUE(Has(ErrorOf({"show"}), "did you mean 'thing show'?"));
  EXPECT_TRUE(Has(ErrorOf({"thing-show"}), "did you mean 'thing show'?"));
  EXPECT_TRUE(Has(ErrorOf({"thing", "show", "id", "--knid=one"}), "did you mean '--kind'?"));
  EXPECT_EQ(ErrorOf({"completely", "else"}), "unknown verb 'completely'; see prog --help");
  EXPECT_STREQ(Value(ParseWords({"set-up", "/dir"})).verb->name, "set_up");
}

TEST(CommandLine, ErrorsNameTheThingAndTheHelp) {
  EXPECT_EQ(ErrorOf({"thing"}), "thing needs a verb: show, join; see prog thing --help");
  EXPECT_EQ(ErrorOf({"set_up"}), "set_up needs DIR [NAME]; see prog set_up --help");
  EXPECT_EQ(ErrorOf({"set_up", "a", "b", "c"}),
            "'c' is one operand too many; see prog set_up --help");
  EXPECT_EQ(ErrorOf({"set_up", "a", "--json=yes"}),
            "--json takes no value; see prog set_up --help");
  EXPECT_EQ(ErrorOf({"thing", "show", "x", "--dir"}),
            "--dir needs DIR; see prog thing show --help");
  EXPECT_EQ(ErrorOf({"set_up", "a", "--", "b"}),
            "'--' is not expected here; see prog set_up --help");
  EXPECT_EQ(ErrorOf({"start", "a"}), "start needs a command after --; see prog start --help");
}

TEST(CommandLine, HelpAtEveryLevel) {
  const std::string all = Help(kProgram);
  for (const char* part : {"First:", "Things:", "thing show", "Set it up.", "Exit status:"}) {
    EXPECT_TRUE(Has(all, part)) << part << all;
  }
  EXPECT_FALSE(Has(all, "More of that")) << "lists have one line each";
  const Parsed family = Value(ParseWords({"thing", "--help"}));
  EXPECT_EQ(family.verb, nullptr);
  EXPECT_TRUE(Has(family.text, "thing join"));
  EXPECT_FALSE(Has(family.text, "set_up"));
  // Whatever else is wrong or missing.
  const Parsed verb = Value(ParseWords({"thing", "show", "--help"}));
  EXPECT_TRUE(Has(verb.text, "Usage: prog thing show [OPTION]... ID"));
  EXPECT_TRUE(Has(verb.text, "--tag TEXT"));
  EXPECT_EQ(Value(ParseWords({"help", "thing", "show"})).text, verb.text);
  EXPECT_EQ(ParseWords({"--version"})->text, "prog 1.2\n");
}

TEST(CommandLine, AProgramWithoutVerbs) {
  const std::array self = {Verb{"", "", "[FILE]", "", kShowOptions}};
  const Program program = {"alone", 8, "Does one thing.", self, {}, {}, {}, "3"};
  const Parsed parsed = Value(ParseWords({"--dir", "x", "file"}, program));
  EXPECT_EQ(parsed.args.Get("--dir"), "x");
  EXPECT_EQ(parsed.args.operands, std::vector<std::string>{"file"});
  const Result<Parsed> wrong = ParseWords({"--dri", "x"}, program);
  ASSERT_FALSE(wrong);
  EXPECT_EQ(wrong.error().message,
            "unknown option '--dri'; did you mean '--dir'? see alone --help");
  ASSERT_TRUE(ParseWords({}, program));
}

TEST(Suggest, NearNamesOnly) {
  EXPECT_EQ(EditDistance("status", "statsu"), 1U);
  EXPECT_EQ(EditDistance("", "abc"), 3U);
  EXPECT_EQ(EditDistance("kitten", "sitting"), 3U);
  const std::vector<std::string> known = {"status", "list", "residency"};
  EXPECT_EQ(DidYouMean("resid", known), "; did you mean 'residency'?");
  EXPECT_EQ(DidYouMean("xyz", known), "");
  EXPECT_EQ(DidYouMean("", known), "");
  EXPECT_EQ(DidYouMean(std::string(1 << 20, 'x'), known), "");
}

}  // namespace
}  // namespace ppc::cli
