// SPDX-License-Identifier: Apache-2.0
#include "extras/manual/tests/shown_commands.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <iterator>
#include <regex>
#include <set>
#include <sstream>
#include <string_view>

namespace ppc::cli {
namespace {

constexpr std::array<std::string_view, 4> kPrograms = {"ppcctl", "ppcd", "ppc-runner",
                                                       "ppc-policy-test"};

bool IsOurs(std::string_view name) {
  return std::find(kPrograms.begin(), kPrograms.end(), name) != kPrograms.end();
}

// The simple commands of a line: quotes kept together, comments and redirections gone.
std::vector<std::vector<std::string>> SimpleCommands(const std::string& line) {
  std::vector<std::vector<std::string>> commands(1);
  std::string word;
  bool is_word = false;
  bool is_redirection = false;
  char quote = 0;
  const auto finish = [&] {
    if (is_word && !is_redirection) commands.back().push_back(word);
    if (is_word) is_redirection = false;
    word.clear();
    is_word = false;
  };
  for (const char c : line) {
    if (quote != 0) {
      if (c == quote) {
        quote = 0;
      } else {
        word += c;
      }
    } else if (c == '\'' || c == '"') {
      quote = c;
      is_word = true;
    } else if (c == '#' && !is_word) {
      break;
    } else if (c == ' ' || c == '\t') {
      finish();
    } else if (c == ';' || c == '|' || c == '&') {
      finish();
      commands.emplace_back();
    } else if (c == '>' || c == '<') {
      finish();
      is_redirection = true;
    } else {
      word += c;
      is_word = true;
    }
  }
  finish();
  return commands;
}

void Append(const std::string& where, const std::string& line, bool is_span,
            std::vector<ShownCommand>* commands) {
  for (const std::vector<std::string>& words : SimpleCommands(line)) {
    size_t at = 0;
    // A prompt, what doctor prints, an element of a list in YAML, words of a shell, settings of the
    // environment.
    static const std::regex kBefore(R"(\$|remedy:|-|exec|until|while|if|do|then|[A-Z_]+=.*)");
    while (at < words.size() && std::regex_match(words[at], kBefore)) ++at;
    if (at == words.size()) continue;
    if (words[at] == "trap" && at + 1 < words.size()) {
      Append(where, words[at + 1], is_span, commands);
      continue;
    }
    const std::string program = words[at].substr(words[at].rfind('/') + 1);
    if (!IsOurs(program)) continue;
    commands->push_back({where, program, {words.begin() + at + 1, words.end()}, is_span});
  }
}

// "-+/usr/bin/ppcctl ..." of "ExecStartPre=-+/usr/bin/ppcctl ..."; else the line.
std::string WithoutExec(const std::string& line) {
  static const std::regex kExec("^Exec[A-Za-z]+=[-+!@:]*");
  return std::regex_replace(line, kExec, "");
}

std::string WithoutBrackets(std::string text) {
  std::erase_if(text, [](char c) { return c == '[' || c == ']'; });
  return text;
}

void AppendSpans(const std::string& where, const std::string& paragraph,
                 std::vector<ShownCommand>* commands) {
  static const std::regex kSpan("`([^`]+)`");
  for (std::sregex_iterator it(paragraph.begin(), paragraph.end(), kSpan), end; it != end; ++it) {
    // [DIR] is an operand that may be left out.
    Append(where, WithoutBrackets((*it)[1]), true, commands);
  }
}

// Where what begins at `begin` ends: of a shell's script with the lines that it goes on in, of
// Python with its brackets, of C++ with its semicolon.
size_t EndOfStatement(const std::string& file, const std::string& text, size_t begin) {
  if (file.ends_with(".cc")) return std::min(text.find(';', begin), text.size());
  const bool is_python = text.starts_with("#!/usr/bin/env python3") || file.ends_with(".py");
  // Within the brackets of a call, or before those of a function of the test's own.
  const size_t word = text.find_first_not_of("abcdefghijklmnopqrstuvwxyz_", begin);
  int depth = word != text.npos && text[word] == '(' ? 0 : 1;
  for (size_t at = begin; at < text.size(); ++at) {
    const char c = text[at];
    if (is_python) {
      depth += c == '(' ? 1 : c == ')' ? -1 : 0;
      if (c == ')' && depth == 0) return at;
    } else if (c == '\n' && text[at - 1] != '\\') {
      return at;
    }
  }
  return text.size();
}

// How a command is written: of the shell its words, of other languages quoted ones.  Between them
// stand spaces, behind a separator.
struct Form {
  std::vector<std::string> words;
  std::string separator;
};

bool IsWordChar(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_'; }

// Whether the words stand there, as words of their own.
bool Matches(const std::string& text, size_t at, const Form& form) {
  if (at > 0 && IsWordChar(text[at - 1]) && IsWordChar(text[at])) return false;
  for (const std::string& word : form.words) {
    if (&word != &form.words.front()) {
      if (text.compare(at, form.separator.size(), form.separator) != 0) return false;
      at = std::min(text.find_first_not_of(' ', at + form.separator.size()), text.size());
    }
    if (text.compare(at, word.size(), word) != 0) return false;
    at += word.size();
  }
  const char next = at < text.size() ? text[at] : ' ';
  return std::islower(static_cast<unsigned char>(next)) == 0 && next != '_' && next != '-';
}

}  // namespace

std::vector<ShownCommand> CommandsOfDocument(const std::string& name, const std::string& text,
                                             std::vector<std::string>* missed) {
  static const std::regex kMention(R"(\bppcctl\b)");
  std::vector<ShownCommand> commands;
  std::istringstream lines(text);
  std::string paragraph;  // a span may be broken over two lines
  bool is_fenced = false;
  int number = 0;
  for (std::string line; std::getline(lines, line);) {
    const std::string where = name + ":" + std::to_string(++number);
    if (line.starts_with("```")) {
      is_fenced = !is_fenced;
      continue;
    }
    if (!is_fenced) {
      paragraph += line + " ";
      if (line.empty()) {
        AppendSpans(where, paragraph, &commands);
        paragraph.clear();
      }
      continue;
    }
    for (std::string more; line.ends_with('\\') && std::getline(lines, more); ++number) {
      line.back() = ' ';
      line += more;
    }
    // A drawing, or what a program says: `NAME: text`.
    static const std::regex kSaid("^[a-z-]+: ");
    const bool is_drawing = line.find("─") != std::string::npos || std::regex_search(line, kSaid);
    const size_t before = commands.size();
    if (!is_drawing) Append(where, WithoutExec(line), false, &commands);
    const std::string code = line.substr(0, line.find(" #"));
    if (!is_drawing && commands.size() == before && std::regex_search(code, kMention)) {
      missed->push_back(where + ": " + line);
    }
  }
  AppendSpans(name + ":" + std::to_string(number), paragraph, &commands);
  return commands;
}

std::vector<ShownCommand> CommandsOfUnit(const std::string& name, const std::string& text) {
  std::vector<ShownCommand> commands;
  std::istringstream lines(text);
  int number = 0;
  for (std::string line; std::getline(lines, line);) {
    ++number;
    if (line.starts_with('#')) line.erase(0, 1);  // a line to be taken up
    if (!line.starts_with("Exec")) continue;
    Append(name + ":" + std::to_string(number), WithoutExec(line), false, &commands);
  }
  return commands;
}

std::vector<ShownCommand> CommandsOfReadme(const std::string& name, const std::string& text) {
  std::vector<ShownCommand> commands;
  std::istringstream lines(text);
  std::string paragraphs;
  int number = 0;
  for (std::string line; std::getline(lines, line);) {
    const std::string where = name + ":" + std::to_string(++number);
    if (line.starts_with("  ")) {
      Append(where, line, false, &commands);
    } else {
      paragraphs += line + " ";
    }
  }
  AppendSpans(name, paragraphs, &commands);
  return commands;
}

std::vector<ShownCommand> CommandsOfManifest(const std::string& name, const std::string& text,
                                             std::vector<std::string>* missed) {
  static const std::regex kWords(R"re(\["(ppcctl|ppcd)".*\])re");
  static const std::regex kMention(R"(\bppcctl\b)");
  std::vector<ShownCommand> commands;
  std::istringstream lines(text);
  std::string comments;
  int number = 0;
  for (std::string line; std::getline(lines, line);) {
    const std::string where = name + ":" + std::to_string(++number);
    const size_t begin = std::min(line.find_first_not_of(' '), line.size());
    if (line.substr(begin, 1) == "#") {
      comments += line.substr(begin + 1) + " ";
      continue;
    }
    const size_t before = commands.size();
    std::smatch list;
    if (std::regex_search(line, list, kWords)) {
      std::string words = list[0];
      std::erase_if(words, [](char c) { return c == '[' || c == ']' || c == ','; });
      Append(where, words, false, &commands);
    } else {
      Append(where, line, false, &commands);
    }
    if (commands.size() == before && std::regex_search(line, kMention)) {
      missed->push_back(where + ": " + line);
    }
  }
  AppendSpans(name, comments, &commands);
  return commands;
}

std::vector<std::string> CallsOf(const TestText& test, const std::string& command,
                                 const std::string& by) {
  std::istringstream stream(command);
  const std::vector<std::string> words{std::istream_iterator<std::string>(stream), {}};
  std::vector<Form> forms = {{words, " "}};
  if (words.size() > 1) forms.push_back({{words.begin() + 1, words.end()}, ","});
  for (std::string& word : forms.back().words) {
    if (words.size() > 1) word = "\"" + word + "\"";
  }
  if (!by.empty()) forms.push_back({{by}, ""});
  std::set<size_t> begins;
  for (const Form& form : forms) {
    size_t at = 0;
    while ((at = test.text.find(form.words[0], at)) != std::string::npos) {
      if (Matches(test.text, at, form)) begins.insert(at);
      ++at;
    }
  }
  std::vector<std::string> calls;
  for (const size_t begin : begins) {
    calls.push_back(test.text.substr(begin, EndOfStatement(test.file, test.text, begin) - begin));
  }
  return calls;
}

}  // namespace ppc::cli
