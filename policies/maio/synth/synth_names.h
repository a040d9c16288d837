// SPDX-License-Identifier: Apache-2.0
//
// What the names of a model's files say: which are weights, which belong to one
// set, which worker's a file is.  Pure functions.
#ifndef POLICIES_MAIO_SYNTH_SYNTH_NAMES_H_
#define POLICIES_MAIO_SYNTH_SYNTH_NAMES_H_

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <initializer_list>
#include <iterator>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "policies/maio/template/file_kind.h"

namespace ppc::maio {

using Names = std::vector<std::string>;

inline std::string Join(const std::string& dir, const std::string& name) {
  return dir.empty() ? name : dir + "/" + name;
}
inline std::string DirOf(const std::string& path) {
  const size_t slash = path.rfind('/');
  return slash == std::string::npos ? "" : path.substr(0, slash);
}
inline std::string NameOf(const std::string& path) { return path.substr(path.rfind('/') + 1); }

inline std::string Problem(int rc) {
  return rc == -ELOOP ? "leads out of the mount" : std::strerror(-rc);
}

inline bool EndsWithAny(const std::string& name, std::initializer_list<const char*> ends) {
  return std::ranges::any_of(ends, [&](const char* end) { return name.ends_with(end); });
}
inline bool Has(const Names& names, const std::string& name) {
  return std::ranges::find(names, name) != names.end();
}

inline bool IsSafetensors(std::string_view name) { return name.ends_with(".safetensors"); }
inline bool IsOnnx(const std::string& name) { return name.ends_with(".onnx"); }
inline bool IsIndex(const std::string& name) {
  return EndsWithAny(name, {".safetensors.index.json", ".bin.index.json"});
}
// Beside a model and none itself: what training left, and what llama.cpp loads only when told.
inline bool IsAside(const std::string& name) {
  return name.starts_with("mmproj") || name.starts_with("optimizer") ||
         name.starts_with("scheduler") || name.starts_with("rng_state") ||
         name == "training_args.bin";
}
inline bool IsModelFile(const std::string& name) {
  return (IsTabled(name) || IsPlain(name)) && !IsAside(name);
}

inline bool IsNumber(const std::string& text, size_t from, size_t to) {
  return from < to && std::all_of(text.begin() + static_cast<std::ptrdiff_t>(from),
                                  text.begin() + static_cast<std::ptrdiff_t>(to),
                                  [](char c) { return c >= '0' && c <= '9'; });
}

// Of model-rank-3-part-0.safetensors 3: it is that worker's alone.  -1: of no worker alone.
inline int32_t RankOf(const std::string& name) {
  constexpr std::string_view kRank = "-rank-";
  const size_t at = name.find(kRank);
  if (at == std::string::npos) return -1;
  const size_t from = at + kRank.size();
  const size_t to = name.find_first_not_of("0123456789", from);
  if (to == std::string::npos || to - from > 4 || !IsNumber(name, from, to)) return -1;
  if (name.find('.', to) == std::string::npos) return -1;
  return std::stoi(name.substr(from, to - from));
}

// "x-of-00003.gguf" of x-00001-of-00003.gguf; of a file that is none of several its own name.
inline std::string SetOf(const std::string& name) {
  const size_t dot = name.rfind('.');
  if (RankOf(name) >= 0) return name.substr(0, name.find("-rank-")) + "-rank" + name.substr(dot);
  const size_t of = dot == std::string::npos ? dot : name.rfind("-of-", dot);
  const size_t dash =
      of == std::string::npos || of == 0 ? std::string::npos : name.rfind('-', of - 1);
  if (dash == std::string::npos) return name;
  if (!IsNumber(name, dash + 1, of) || !IsNumber(name, of + 4, dot)) return name;
  return name.substr(0, dash) + name.substr(of, dot - of) + name.substr(dot);
}

// "fp16" of model.fp16-00001-of-00002.safetensors, "" of a file without a variant.
inline std::string VariantOf(const std::string& name) {
  const std::string stem = name.substr(0, name.rfind('.'));
  const size_t dot = stem.find('.');
  if (dot == std::string::npos) return "";
  return stem.substr(dot + 1, stem.find('-', dot) - dot - 1);
}

template <typename Is>
inline std::set<std::string> SetsOf(const Names& names, Is is) {
  std::set<std::string> sets;
  for (const std::string& name : names) {
    if (is(name) && !IsAside(name)) sets.insert(SetOf(name));
  }
  return sets;
}

inline Names MembersOf(const Names& names, const std::string& set) {
  Names members;
  for (const std::string& name : names) {
    if (SetOf(name) == set) members.push_back(name);
  }
  // Of ranks by number, not by digit.
  std::ranges::stable_sort(members, {}, RankOf);
  return members;
}

inline Names IndexesOf(const Names& names) {
  Names indexes;
  std::ranges::copy_if(names, std::back_inserter(indexes), IsIndex);
  // model.safetensors.index.json before its variants, safetensors before what is pickled.
  std::ranges::stable_sort(indexes, {}, [](const std::string& name) {
    return std::pair(!name.ends_with(".safetensors.index.json"), name.size());
  });
  return indexes;
}

}  // namespace ppc::maio

#endif  // POLICIES_MAIO_SYNTH_SYNTH_NAMES_H_
