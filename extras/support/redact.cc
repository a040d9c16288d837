// SPDX-License-Identifier: Apache-2.0
#include "extras/support/redact.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <iterator>
#include <regex>
#include <sstream>

namespace ppc::ctl {
namespace {

// The library's matcher takes stack in proportion to the match.
constexpr size_t kMostOfALine = 4096;

// Not "tokenizer", nor "keys".
constexpr const char* kSecretName =
    "token(?!iz)|secret|passw|credential|api[-_]?key|auth(?!or)|cookie|(^|[-_])key($|[-_])";

bool IsSecretName(const std::string& name) {
  static const std::regex kName(kSecretName, std::regex::icase);
  return std::regex_search(name, kName);
}

// Text to keep, followed by text to remove.
struct Pattern {
  std::regex what;
  const char* with;
};

const std::array<Pattern, 4>& Patterns() {
  constexpr auto kAnyCase = std::regex::icase;
  static const std::array<Pattern, 4> kPatterns = {{
      {std::regex("(://)[^/\\s:@]*:[^/\\s@]+@"), "$1(left out)@"},
      {std::regex("\\b(bearer\\s+)[^\\s\"']+", kAnyCase), "$1(left out)"},
      {std::regex("\\b(hf_|sk-|gh[a-z]_|github_pat_|glpat-|xox[a-z]-|AKIA)[A-Za-z0-9_-]{8,}"),
       "(left out)"},
      {std::regex("((?:token(?!iz)|secret|passw(?:or)?d|key|credential)[\\w-]{0,32}[\"']?"
                  "\\s*[=:]\\s*|--[\\w-]{0,32}(?:token(?!iz)|secret|passw(?:or)?d|key)\\s+)"
                  "(?!\\(left out\\))(?:\"[^\"]*\"|'[^']*'|[^\\s,;}\"']+)",
                  kAnyCase),
       "$1(left out)"},
  }};
  return kPatterns;
}

// Most lines have none, and the library's matcher is slow.
bool MayHaveSecret(const std::string& line) {
  constexpr std::array kHints = {"token", "secret", "passw", "key",   "credential", "bearer", "://",
                                 "hf_",   "sk-",    "gh",    "glpat", "xox",        "akia"};
  std::string lower = line;
  for (char& c : lower) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return std::any_of(kHints.begin(), kHints.end(),
                     [&lower](const char* hint) { return lower.find(hint) != lower.npos; });
}

std::string LineWithoutSecrets(std::string line, size_t* count) {
  if (line.size() > kMostOfALine) line = line.substr(0, kMostOfALine) + " ...";
  if (!MayHaveSecret(line)) return line;
  for (const Pattern& pattern : Patterns()) {
    const std::sregex_iterator first(line.begin(), line.end(), pattern.what);
    const auto found = static_cast<size_t>(std::distance(first, std::sregex_iterator()));
    if (found == 0) continue;
    *count += found;
    line = std::regex_replace(line, pattern.what, pattern.with);
  }
  return line;
}

}  // namespace

Json WithoutSecrets(const Json& value, size_t* count) {
  if (value.is_string()) return WithoutSecrets(value.get<std::string>(), count);
  Json out = value;
  if (value.is_object()) {
    for (const auto& [name, member] : value.items()) {
      if (!member.is_structured() && !member.is_null() && !member.is_boolean() &&
          IsSecretName(name)) {
        ++*count;
        out[name] = kRedacted;
      } else {
        out[name] = WithoutSecrets(member, count);
      }
    }
  } else if (value.is_array()) {
    for (size_t i = 0; i < value.size(); ++i) out[i] = WithoutSecrets(value[i], count);
  }
  return out;
}

std::string WithoutSecrets(const std::string& text, size_t* count) {
  std::string out;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) out += LineWithoutSecrets(line, count) + "\n";
  if (!text.ends_with('\n') && !out.empty()) out.pop_back();
  return out;
}

}  // namespace ppc::ctl
