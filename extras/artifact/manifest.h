// SPDX-License-Identifier: Apache-2.0
// Owns the list of a bundle's files: its text, sealed with the user's secret, and the rules that a
// list must obey before any of it is used.
// Threads: pure functions, any thread.
#ifndef PPC_EXTRAS_ARTIFACT_MANIFEST_H_
#define PPC_EXTRAS_ARTIFACT_MANIFEST_H_

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "daemon/base/result.h"

namespace ppc::artifact {

inline constexpr size_t kMaxEntries = 200'000;
inline constexpr size_t kMaxManifestBytes = 128 << 20;

// Properties that must be equal where a bundle is restored: part -> value.
using Key = std::map<std::string, std::string>;

// 32 hexadecimal digits.
std::string KeyIdOf(const Key& key);

// A directory in which an engine keeps state.
struct Root {
  std::string name;
  std::string directory;  // absolute; in a manifest: at the capture
};

enum class Kind : char { kFile = 'f', kDirectory = 'd', kLink = 'l' };

// Encoding of an object's bytes.
enum class Form : char { kRaw = 'r', kZstd = 'z' };

struct Entry {
  Kind kind = Kind::kFile;
  uint32_t root = 0;  // index in Manifest::roots
  std::string path;   // below it
  uint32_t mode = 0;  // permission bits
  int64_t mtime_ns = 0;
  uint64_t size = 0;       // of a file
  std::string digest;      // of a file's bytes, hexadecimal
  Form form = Form::kRaw;  // of a file
  std::string target;      // of a link

  bool operator==(const Entry&) const = default;
};

struct Manifest {
  std::string service_id;
  Key key;
  int64_t captured_ns = 0;  // since 1970
  std::vector<Root> roots;
  std::vector<Entry> entries;  // a directory before its contents
};

// Sealed: the last line is an HMAC of the lines before.
std::string Encode(const Manifest& manifest, std::string_view secret);

// EKEYREJECTED: sealed with another secret, or changed; EBADMSG: sealed, but against the rules.
Result<Manifest> Decode(std::string_view text, std::string_view secret);

// Why a path must not be below a root, or a link at `path` not lead to `target`; "" = allowed.
std::string PathProblem(std::string_view path);
std::string LinkProblem(std::string_view path, std::string_view target);

// A root's name: letters, digits, "_", "-", at most 32.
Status CheckRootName(const std::string& name);

}  // namespace ppc::artifact

#endif  // PPC_EXTRAS_ARTIFACT_MANIFEST_H_
