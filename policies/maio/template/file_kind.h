// SPDX-License-Identifier: Apache-2.0
//
// Kinds of a model's files, by their names.  A format with a table of contents, from which a first
// start is prefetched, has a row here and its parser in synth_files.cc.  Pure functions.
#ifndef POLICIES_MAIO_TEMPLATE_FILE_KIND_H_
#define POLICIES_MAIO_TEMPLATE_FILE_KIND_H_

#include <algorithm>
#include <array>
#include <cstdint>
#include <string>
#include <string_view>

namespace ppc::maio {

// The numbers are in stored templates.
enum class FileKind : uint8_t {
  kOther = 0,
  kSafetensors = 1,
  kGguf = 2,
  kSmall = 3,  // configuration, tokenizer, index: kept until ready
};

struct Format {
  FileKind kind;
  std::string_view name;
  std::string_view suffix;  // of its files' names
};
inline constexpr std::array kFormats = {
    Format{FileKind::kSafetensors, "safetensors", ".safetensors"},
    Format{FileKind::kGguf, "gguf", ".gguf"},
};
// Of model files whose table of contents is not read.
inline constexpr std::array<std::string_view, 5> kPlainSuffixes = {".bin", ".pt", ".pth",
                                                                   ".tensors", ".onnx"};

inline bool HasContents(FileKind kind) {
  return std::ranges::find(kFormats, kind, &Format::kind) != kFormats.end();
}
inline bool IsTabled(std::string_view name) {
  return std::ranges::any_of(kFormats, [&](const Format& f) { return name.ends_with(f.suffix); });
}
inline bool IsPlain(std::string_view name) {
  return std::ranges::any_of(kPlainSuffixes, [&](auto end) { return name.ends_with(end); });
}

// The kind of a number in a template; kOther for one that only newer programs know.
inline FileKind KnownKind(uint8_t number) {
  const auto kind = static_cast<FileKind>(number);
  return HasContents(kind) || kind == FileKind::kSmall ? kind : FileKind::kOther;
}

// Larger files with a name as of configuration are no configuration.
inline constexpr uint64_t kMaxTextBytes = 256ull << 20;
// By the name; size 0: not known.
FileKind KindOfPath(const std::string& path, uint64_t size = 0);
// A shared library, by its name.
bool IsLibrary(const std::string& path);

}  // namespace ppc::maio

#endif  // POLICIES_MAIO_TEMPLATE_FILE_KIND_H_
