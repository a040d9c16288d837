// SPDX-License-Identifier: Apache-2.0
// The words of one ppcdev command, and how commands report.
#pragma once

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <string>
#include <vector>

namespace ppc::test {

// A command line split at blanks: words[0] is the verb; NAME=VALUE words are options.
class Words {
 public:
  explicit Words(const std::string& line) {
    size_t at = 0;
    while ((at = line.find_first_not_of(' ', at)) != std::string::npos) {
      const size_t end = line.find(' ', at);
      Add(line.substr(at, end == std::string::npos ? end : end - at));
      if (end == std::string::npos) break;
      at = end;
    }
  }

  const std::string& verb() const { return words_.at(0); }
  bool empty() const { return words_.empty(); }
  std::string Text(size_t i, const std::string& fallback = "") const {
    return i < words_.size() ? words_[i] : fallback;
  }
  // A number with an optional K, M, G or T; "-" and absent words give fallback.
  uint64_t Number(size_t i, uint64_t fallback = 0) const {
    return i < words_.size() && words_[i] != "-" ? Parse(words_[i]) : fallback;
  }
  uint64_t Option(const std::string& name, uint64_t fallback = 0) const {
    const auto it = options_.find(name);
    return it == options_.end() ? fallback : Parse(it->second);
  }
  std::string TextOption(const std::string& name) const {
    const auto it = options_.find(name);
    return it == options_.end() ? "" : it->second;
  }
  // Whether the bare word occurs after the verb.
  bool Has(const std::string& word) const {
    for (size_t i = 1; i < words_.size(); ++i) {
      if (words_[i] == word) return true;
    }
    return false;
  }

  static uint64_t Parse(const std::string& text) {
    char* end = nullptr;
    uint64_t value = std::strtoull(text.c_str(), &end, 0);
    switch (*end) {
      case 'T':
        value <<= 10;
        [[fallthrough]];
      case 'G':
        value <<= 10;
        [[fallthrough]];
      case 'M':
        value <<= 10;
        [[fallthrough]];
      case 'K':
        value <<= 10;
        break;
      default:
        break;
    }
    return value;
  }

 private:
  void Add(const std::string& word) {
    const size_t equals = word.find('=');
    if (equals == std::string::npos || words_.empty()) {
      words_.push_back(word);
    } else {
      options_[word.substr(0, equals)] = word.substr(equals + 1);
    }
  }

  std::vector<std::string> words_;
  std::map<std::string, std::string> options_;
};

// What a command did: 0 or the errno it failed with.
using Outcome = int;

}  // namespace ppc::test
