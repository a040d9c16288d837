// SPDX-License-Identifier: Apache-2.0
// Finds the bundle of a key.
#include <algorithm>
#include <cerrno>
#include <sstream>

#include "extras/artifact/restore.h"

namespace ppc::artifact {
namespace {

constexpr size_t kLongValue = 80;

std::optional<std::string> ValueOf(const Key& key, const std::string& part) {
  const auto found = key.find(part);
  if (found == key.end()) return std::nullopt;
  return found->second;
}

// The words of `text` that `other` lacks.
std::string WordsBeside(const std::string& text, const std::string& other) {
  const std::string others = " " + other + " ";
  std::string words;
  std::istringstream in(text);
  for (std::string word; in >> word;) {
    if (others.find(" " + word + " ") == std::string::npos)
      words += (words.empty() ? "" : " ") + word;
  }
  return words;
}

std::string Quoted(const std::string& text) { return "'" + text + "'"; }

}  // namespace

std::vector<Difference> Differences(const Key& here, const Key& captured) {
  std::vector<Difference> differences;
  Key parts = here;
  parts.insert(captured.begin(), captured.end());
  for (const auto& [part, value] : parts) {
    const std::optional<std::string> one = ValueOf(here, part);
    const std::optional<std::string> other = ValueOf(captured, part);
    if (one != other) differences.push_back(Difference{part, one, other});
  }
  return differences;
}

std::string TextOf(const Difference& difference) {
  const std::string& part = difference.part;
  if (!difference.here)
    return part + " was " + Quoted(*difference.captured) + ", there is none here";
  if (!difference.captured) return part + " is " + Quoted(*difference.here) + ", there was none";
  if (difference.here->size() <= kLongValue && difference.captured->size() <= kLongValue) {
    return part + " is " + Quoted(*difference.here) + ", it was " + Quoted(*difference.captured);
  }
  const std::string more = WordsBeside(*difference.here, *difference.captured);
  const std::string less = WordsBeside(*difference.captured, *difference.here);
  return part + " has" + (more.empty() ? "" : " gained " + Quoted(more)) +
         (more.empty() || less.empty() ? "" : " and") +
         (less.empty() ? "" : " lost " + Quoted(less));
}

Result<Match> FindBundle(const Store& store, const std::string& service_id, const Key& key) {
  const BundleName wanted{service_id, KeyIdOf(key)};
  Match match;
  Result<Manifest> exact = store.Load(wanted);
  if (exact) {
    match.manifest = *std::move(exact);
    return match;
  }
  if (exact.error().code != ENOENT) return exact.error();
  const Result<std::vector<BundleName>> names = store.List();
  if (!names) return names.error();
  int64_t captured_ns = 0;
  for (const BundleName& name : *names) {
    if (name.service_id != service_id) continue;
    const Result<Manifest> other = store.Load(name);
    if (!other) continue;
    std::vector<Difference> differences = Differences(key, other->key);
    const bool is_nearer =
        match.differences.empty() || differences.size() < match.differences.size() ||
        (differences.size() == match.differences.size() && other->captured_ns > captured_ns);
    if (!is_nearer) continue;
    match.nearest = name;
    match.differences = std::move(differences);
    captured_ns = other->captured_ns;
  }
  return match;
}

}  // namespace ppc::artifact
