// SPDX-License-Identifier: Apache-2.0
// What of the programs that read a directory keeps them from being faster.
#include <algorithm>
#include <array>
#include <string_view>

#include "tools/ppcctl/doctor/checks.h"

namespace ppc::ctl {
namespace {

// An option by which an engine loads its files itself, ahead of reading them.
struct OwnPrefetch {
  std::string_view option;
  std::array<std::string_view, 2> values;  // with these; none = it is a switch
  const char* engine;
  const char* remedy;
};
constexpr std::array kOwnPrefetch = {
    OwnPrefetch{"--safetensors-load-strategy",
                {"prefetch", "eager"},
                "vLLM",
                "start it with --safetensors-load-strategy lazy"},
    OwnPrefetch{"--weight-loader-prefetch-checkpoints",
                {"", ""},
                "SGLang",
                "start it without --weight-loader-prefetch-checkpoints"},
};

// The words that switch it on, "" = they do not.
std::string WordsOf(const OwnPrefetch& known, const std::vector<std::string>& words) {
  for (size_t i = 0; i < words.size(); ++i) {
    const std::string& word = words[i];
    if (known.values[0].empty()) {
      if (word == known.option) return word;
      continue;
    }
    std::string value;
    if (word == known.option && i + 1 < words.size()) value = words[i + 1];
    if (word.starts_with(std::string(known.option) + "="))
      value = word.substr(known.option.size() + 1);
    if (value.empty()) continue;
    if (value == known.values[0] || value == known.values[1]) {
      return std::string(known.option) + " " + value;
    }
  }
  return "";
}

void CheckWords(const std::string& about, const std::vector<std::string>& words, Findings* out) {
  for (const OwnPrefetch& known : kOwnPrefetch) {
    const std::string found = WordsOf(known, words);
    if (found.empty()) continue;
    out->push_back({"own-prefetch", about,
                    std::string(known.engine) + "'s own prefetch is on (" + found +
                        "): it reads whole files, also what its workers do not need",
                    known.remedy, true});
  }
}

std::string NameOf(const Reader& reader) {
  return "process " + std::to_string(reader.pid) + " (" + reader.name + ")";
}

}  // namespace

void CheckReaders(const Patient& /*patient*/, const DirectoryLook& look, Findings* out) {
  for (const Reader& reader : look.readers) {
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
                      "start it without --numa", true});
    }
    CheckWords(NameOf(reader), reader.words, out);
  }
}

void CheckCommand(const Patient& patient, Findings* out) {
  CheckWords("the command", patient.command, out);
}

}  // namespace ppc::ctl
