// SPDX-License-Identifier: Apache-2.0
#include "tools/ppcctl/command_words.h"

#include <algorithm>
#include <array>
#include <cctype>

namespace ppc::ctl {
namespace {

constexpr std::array<std::string_view, 6> kShells = {"sh", "bash", "dash", "zsh", "ksh", "ash"};
// They run the next word that can be a program.
constexpr std::array<std::string_view, 22> kWrappers = {
    "env",  "exec",     "nice", "ionice",     "numactl", "taskset", "timeout",     "stdbuf",
    "time", "nohup",    "sudo", "setsid",     "chrt",    "setpriv", "systemd-run", "tini",
    "uv",   "torchrun", "uvx",  "accelerate", "run",     "launch"};

std::string BaseName(const std::string& path) { return path.substr(path.rfind('/') + 1); }

template <typename List>
bool IsIn(const List& list, std::string_view word) {
  return std::find(list.begin(), list.end(), word) != list.end();
}

bool IsPython(std::string_view name) {
  return name.starts_with("python") && name.find_first_not_of("0123456789.", 6) == name.npos;
}

// "-c", "-lc", "-ec": a shell's option whose next word is the script.
bool TakesScript(const std::string& word) {
  return word.size() >= 2 && word[0] == '-' && word[1] != '-' && word.back() == 'c';
}

// As a shell would cut it, roughly: quotes and backslashes go, operators separate.
void AppendScript(const std::string& script, std::vector<std::string>& words) {
  std::string word;
  bool is_word = false;
  char quote = 0;
  const auto finish = [&] {
    if (is_word) words.push_back(word);
    word.clear();
    is_word = false;
  };
  for (size_t i = 0; i < script.size(); ++i) {
    const char c = script[i];
    if (quote != 0) {
      if (c == quote) {
        quote = 0;
      } else {
        word += c;
      }
    } else if (c == '\'' || c == '"') {
      quote = c;
      is_word = true;
    } else if (c == '\\' && i + 1 < script.size()) {
      word += script[++i];
      is_word = true;
    } else if (std::isspace(static_cast<unsigned char>(c)) != 0 ||
               std::string_view(";|&()<>").find(c) != std::string_view::npos) {
      finish();
    } else {
      word += c;
      is_word = true;
    }
  }
  finish();
}

// An option, a setting of env, or an option's number, as of nice and numactl.
bool CanBeProgram(const std::string& word) {
  return !word.empty() && word[0] != '-' &&
         std::isdigit(static_cast<unsigned char>(word[0])) == 0 &&
         word.find('=') == std::string::npos;
}

}  // namespace

std::vector<std::string> WordsOf(const std::vector<std::string>& command) {
  std::vector<std::string> words;
  bool is_shell = false;
  for (size_t i = 0; i < command.size(); ++i) {
    words.push_back(command[i]);
    if (is_shell && TakesScript(command[i]) && i + 1 < command.size()) {
      AppendScript(command[++i], words);
    }
    is_shell = IsIn(kShells, BaseName(command[i])) || (is_shell && command[i].starts_with('-'));
  }
  return words;
}

std::optional<std::string> OptionValue(const std::vector<std::string>& words,
                                       std::initializer_list<std::string_view> names) {
  std::optional<std::string> value;
  for (size_t i = 0; i < words.size(); ++i) {
    const size_t equals = words[i].find('=');
    if (!IsIn(names, std::string_view(words[i]).substr(0, equals))) continue;
    if (equals != std::string::npos) {
      value = words[i].substr(equals + 1);
    } else if (i + 1 < words.size()) {
      value = words[i + 1];
    }
  }
  return value;
}

std::string ProgramOf(const std::vector<std::string>& words) {
  std::string program;
  bool is_module = false;
  bool is_ours = false;  // ppcctl run OPTIONS DIR --: only then comes the command
  for (const std::string& word : words) {
    if (is_ours) {
      is_ours = word != "--";
      continue;
    }
    const bool is_python = IsPython(program);
    if (is_python && word == "-c") break;
    if (is_python && word == "-m") is_module = true;
    if (!CanBeProgram(word)) continue;
    program = is_module ? word : BaseName(word);
    is_ours = program == "ppcctl";
    if (is_ours) continue;
    if (is_module || !(IsIn(kWrappers, program) || IsIn(kShells, program) || IsPython(program))) {
      break;
    }
  }
  // The interpreter's version does not change what is read.
  return IsPython(program) ? "python" : program;
}

}  // namespace ppc::ctl
