// SPDX-License-Identifier: Apache-2.0
// Causes in the programs that read a directory.
#include <algorithm>
#include <array>
#include <cstddef>
#include <string_view>

#include "extras/doctor/checks.h"
#include "tools/ppcctl/text.h"

namespace ppc::ctl {
namespace {

// An option by which an engine loads its files itself, ahead of reading them.
struct OwnPrefetch {
  std::string_view option;
  std::array<std::string_view, 2> values;  // values that switch it on; none = a switch
  std::string_view instead;                // the value that prefetches nothing
  const char* engine;
};
constexpr std::array kOwnPrefetch = {
    OwnPrefetch{"--safetensors-load-strategy", {"prefetch", "eager"}, "lazy", "vLLM"},
    OwnPrefetch{"--weight-loader-prefetch-checkpoints", {"", ""}, "", "SGLang"},
};

std::string CommandOf(const std::vector<std::string>& words) {
  std::string command;
  for (const std::string& word : words) command += (command.empty() ? "" : " ") + ShellWord(word);
  return command;
}

// The caller that started a process can change its environment; a command not started yet is the
// remedy itself.
std::string RemedyBy(const std::vector<std::string>& words, bool is_running) {
  return (is_running ? "start it again as: " : "") + CommandOf(words);
}

// The words that switch it on, "" = none; *better: the command without them.
std::string WordsOf(const OwnPrefetch& known, const std::vector<std::string>& words,
                    std::vector<std::string>* better) {
  *better = words;
  for (size_t i = 0; i < words.size(); ++i) {
    const std::string& word = words[i];
    const auto at = better->begin() + static_cast<std::ptrdiff_t>(i);
    if (known.values[0].empty()) {
      if (word != known.option) continue;
      better->erase(at);
      return word;
    }
    const std::string joined = std::string(known.option) + "=";
    std::string value;
    if (word == known.option && i + 1 < words.size()) value = words[i + 1];
    if (word.starts_with(joined)) value = word.substr(joined.size());
    if (value.empty() || (value != known.values[0] && value != known.values[1])) continue;
    if (word == known.option) {
      at[1] = known.instead;
    } else {
      *at = joined + std::string(known.instead);
    }
    return std::string(known.option) + " " + value;
  }
  return "";
}

void CheckWords(const std::string& about, const std::vector<std::string>& words, bool is_running,
                Findings* out) {
  std::vector<std::string> better;
  for (const OwnPrefetch& known : kOwnPrefetch) {
    const std::string found = WordsOf(known, words, &better);
    if (found.empty()) continue;
    out->push_back({"own-prefetch", about,
                    std::string(known.engine) + "'s own prefetch is on (" + found +
                        "): it reads whole files, including parts that its workers do not need",
                    RemedyBy(better, is_running), true});
  }
}

// llama.cpp's --numa and its value switch read-ahead off.
std::string WithoutNuma(const std::vector<std::string>& words) {
  std::vector<std::string> better = words;
  const auto at = std::find(better.begin(), better.end(), "--numa");
  if (at == better.end()) return "start it without what asks for random reads";
  better.erase(at, at + std::min<std::ptrdiff_t>(2, better.end() - at));
  return RemedyBy(better, true);
}

std::string NameOf(const Reader& reader) {
  return "process " + std::to_string(reader.pid) + " (" + reader.name + ")";
}

}  // namespace

void CheckReaders(const SystemSnapshot& /*snapshot*/, const DirectorySnapshot& dir, Findings* out) {
  for (const Reader& reader : dir.readers) {
    if (!reader.direct_file.empty()) {
      out->push_back({"o-direct", NameOf(reader),
                      "it reads " + reader.direct_file +
                          " with O_DIRECT, past the page cache: nothing can be loaded ahead for it",
                      "start it with buffered reads (its loader's option), or mount the directory "
                      "with the module and odirect=buffered",
                      true});
    }
    if (!reader.random_file.empty()) {
      out->push_back({"madv-random", NameOf(reader),
                      "it has told the kernel that it reads " + reader.random_file +
                          " at random (MADV_RANDOM), which ends read-ahead; llama.cpp does so with "
                          "--numa",
                      WithoutNuma(reader.words), true});
    }
    CheckWords(NameOf(reader), reader.words, true, out);
  }
}

void CheckCommand(const SystemSnapshot& snapshot, Findings* out) {
  CheckWords("the command", snapshot.command, false, out);
}

}  // namespace ppc::ctl
