// SPDX-License-Identifier: Apache-2.0
// The format: a line of JSON for the whole, a line of words per entry, the seal.
#include "extras/artifact/manifest.h"

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <charconv>
#include <unordered_map>

#include "daemon/base/digests.h"
#include "daemon/base/json.h"
#include "daemon/wire/service_id.h"

namespace ppc::artifact {
namespace {

constexpr const char* kFormat = "ppc-artifacts";
constexpr int64_t kVersion = 1;
constexpr std::string_view kSeal = "hmac ";
constexpr size_t kDigestDigits = 64;
constexpr size_t kKeyDigits = 32;
constexpr size_t kMaxName = 255;
constexpr size_t kMaxPath = 4095;
constexpr size_t kMaxRoots = 64;
constexpr uint32_t kPermissions = 0777;

bool IsPlain(char c) { return c > ' ' && c < 0x7f && c != '%'; }

// Names may have any bytes; a word has none that would end it.
std::string Escape(std::string_view text) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string word;
  for (const char c : text) {
    if (IsPlain(c)) {
      word += c;
      continue;
    }
    const auto byte = static_cast<unsigned char>(c);
    word += '%';
    word += kDigits[byte >> 4];
    word += kDigits[byte & 15];
  }
  return word;
}

template <typename Number>
bool ReadNumber(std::string_view word, Number* number, int base = 10) {
  const auto [end, ec] = std::from_chars(word.data(), word.data() + word.size(), *number, base);
  return ec == std::errc() && end == word.data() + word.size();
}

bool Unescape(std::string_view word, std::string* text) {
  text->clear();
  for (size_t i = 0; i < word.size(); ++i) {
    if (word[i] != '%') {
      *text += word[i];
      continue;
    }
    uint8_t byte = 0;
    if (i + 2 >= word.size() || !ReadNumber(word.substr(i + 1, 2), &byte, 16)) return false;
    *text += static_cast<char>(byte);
    i += 2;
  }
  return true;
}

bool IsDigest(std::string_view word) {
  return word.size() == kDigestDigits &&
         word.find_first_not_of("0123456789abcdef") == std::string_view::npos;
}

// Splits; empty words count.
std::vector<std::string_view> Split(std::string_view line, char separator) {
  std::vector<std::string_view> words;
  while (true) {
    const size_t end = line.find(separator);
    words.push_back(line.substr(0, end));
    if (end == std::string_view::npos) return words;
    line.remove_prefix(end + 1);
  }
}

std::string LineOf(const Entry& entry) {
  std::string line(1, static_cast<char>(entry.kind));
  line += " " + std::to_string(entry.root) + " " + std::to_string(entry.mode) + " " +
          std::to_string(entry.mtime_ns) + " " + Escape(entry.path);
  if (entry.kind == Kind::kLink) line += " " + Escape(entry.target);
  if (entry.kind == Kind::kFile) {
    line += " " + std::to_string(entry.size) + " " + entry.digest + " ";
    line += static_cast<char>(entry.form);
  }
  return line + "\n";
}

bool ReadEntry(std::string_view line, Entry* entry) {
  const std::vector<std::string_view> words = Split(line, ' ');
  if (words.size() < 5 || words[0].size() != 1) return false;
  entry->kind = static_cast<Kind>(words[0][0]);
  const size_t wanted = entry->kind == Kind::kFile        ? 8
                        : entry->kind == Kind::kLink      ? 6
                        : entry->kind == Kind::kDirectory ? 5
                                                          : 0;
  if (words.size() != wanted || !ReadNumber(words[1], &entry->root) ||
      !ReadNumber(words[2], &entry->mode) || !ReadNumber(words[3], &entry->mtime_ns) ||
      !Unescape(words[4], &entry->path)) {
    return false;
  }
  if (entry->kind == Kind::kLink) return Unescape(words[5], &entry->target);
  if (entry->kind == Kind::kDirectory) return true;
  if (!ReadNumber(words[5], &entry->size) || !IsDigest(words[6]) || words[7].size() != 1) {
    return false;
  }
  entry->digest = words[6];
  entry->form = static_cast<Form>(words[7][0]);
  return entry->form == Form::kRaw || entry->form == Form::kZstd;
}

// Entries so far: a path may come once, and only below a listed directory.
class ListedPaths {
 public:
  std::string Problem(const Entry& entry) {
    const std::string root = std::to_string(entry.root) + "/";
    const size_t slash = entry.path.rfind('/');
    if (slash != std::string::npos) {
      const auto parent = kinds_.find(root + entry.path.substr(0, slash));
      if (parent == kinds_.end() || parent->second != Kind::kDirectory) {
        return "it is not below a directory of the list";
      }
    }
    return kinds_.emplace(root + entry.path, entry.kind).second ? "" : "it is listed twice";
  }

 private:
  std::unordered_map<std::string, Kind> kinds_;
};

Status Damaged(const std::string& what) { return Error{EBADMSG, what}; }

Status ReadHead(std::string_view line, Manifest* manifest) {
  const Result<Json> head = ParseJsonObject(line, "first line");
  if (!head) return head.error();
  const Result<std::string> format = JsonString(*head, "format", "");
  const Result<int64_t> version = JsonInt(*head, "version", 0);
  if (!format || *format != kFormat) return Damaged("it is no list of artifacts");
  if (!version || *version != kVersion) {
    return Damaged("it was written by another version of ppcctl; capture anew");
  }
  const Result<std::string> id = JsonString(*head, "service_id", "");
  const Result<int64_t> captured = JsonInt(*head, "captured_ns", 0);
  if (!id || !captured) return Damaged("its first line");
  if (Status status = control::CheckServiceId(*id); !status) return status.error();
  manifest->service_id = *id;
  manifest->captured_ns = *captured;
  for (const auto& [part, value] : JsonMember(*head, "key").items()) {
    if (!value.is_string()) return Damaged("its key's part " + part);
    manifest->key[part] = value.get<std::string>();
  }
  for (const Json& root : JsonMember(*head, "roots")) {
    if (!root.is_object()) return Damaged("its roots");
    const Result<std::string> name = JsonString(root, "name", "");
    const Result<std::string> directory = JsonString(root, "directory", "");
    if (!name || !directory) return Damaged("its roots");
    if (Status status = CheckRootName(*name); !status) return status.error();
    manifest->roots.push_back(Root{*name, *directory});
  }
  if (manifest->roots.size() > kMaxRoots) return Damaged("it has too many roots");
  return Ok();
}

std::string EntryProblem(const Entry& entry, const Manifest& manifest) {
  if (entry.root >= manifest.roots.size()) return "its root is not listed";
  if ((entry.mode & ~kPermissions) != 0) return "its mode";
  if (std::string problem = PathProblem(entry.path); !problem.empty()) return problem;
  return entry.kind == Kind::kLink ? LinkProblem(entry.path, entry.target) : "";
}

}  // namespace

std::string KeyIdOf(const Key& key) { return Sha256Hex(DumpJson(Json(key))).substr(0, kKeyDigits); }

std::string PathProblem(std::string_view path) {
  if (path.empty() || path.size() > kMaxPath) return "it is empty or too long";
  if (path.front() == '/') return "it is absolute";
  for (const std::string_view name : Split(path, '/')) {
    if (name.empty() || name == "." || name == "..") return "it leaves its root";
    if (name.size() > kMaxName || name.find('\0') != std::string_view::npos) return "its name";
  }
  return "";
}

// ".." may only come first: behind a name it could follow another link to anywhere.
std::string LinkProblem(std::string_view path, std::string_view target) {
  if (target.empty() || target.size() > kMaxPath || target.find('\0') != std::string_view::npos) {
    return "it leads nowhere";
  }
  if (target.front() == '/') return "it leads out of its root, to an absolute path";
  auto levels = std::count(path.begin(), path.end(), '/');
  bool is_below = false;
  for (const std::string_view name : Split(target, '/')) {
    if (name != "..") {
      is_below = is_below || !(name.empty() || name == ".");
    } else if (is_below || --levels < 0) {
      return "it leads out of its root";
    }
  }
  return "";
}

Status CheckRootName(const std::string& name) {
  const bool is_good =
      !name.empty() && name.size() <= 32 && std::all_of(name.begin(), name.end(), [](char c) {
        return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_' || c == '-';
      });
  if (is_good) return Ok();
  return Error{EINVAL, "root '" + name + "': a name has letters, digits, _ and -, at most 32"};
}

std::string Encode(const Manifest& manifest, std::string_view secret) {
  Json roots = Json::array();
  for (const Root& root : manifest.roots) {
    roots.push_back({{"name", root.name}, {"directory", root.directory}});
  }
  std::string text = DumpJson({{"format", kFormat},
                               {"version", kVersion},
                               {"service_id", manifest.service_id},
                               {"captured_ns", manifest.captured_ns},
                               {"key", manifest.key},
                               {"roots", roots}}) +
                     "\n";
  for (const Entry& entry : manifest.entries) text += LineOf(entry);
  return text + std::string(kSeal) + HmacSha256Hex(secret, text) + "\n";
}

Result<Manifest> Decode(std::string_view text, std::string_view secret) {
  const size_t seal_bytes = kSeal.size() + kDigestDigits + 1;
  const size_t end = text.size() < seal_bytes ? 0 : text.size() - seal_bytes;
  const std::string_view body = text.substr(0, end);
  const std::string seal = std::string(kSeal) + HmacSha256Hex(secret, body) + "\n";
  if (body.empty() || body.back() != '\n' || text.substr(end) != seal) {
    return Error{EKEYREJECTED,
                 "it is forged or damaged, or was captured with another key file: its seal is not "
                 "this user's"};
  }
  std::vector<std::string_view> lines = Split(body.substr(0, body.size() - 1), '\n');
  if (lines.size() - 1 > kMaxEntries) return Error{EBADMSG, "it lists too many files"};
  Manifest manifest;
  if (Status status = ReadHead(lines[0], &manifest); !status) return status.error();
  manifest.entries.reserve(lines.size() - 1);
  ListedPaths listed;
  for (size_t i = 1; i < lines.size(); ++i) {
    Entry entry;
    if (!ReadEntry(lines[i], &entry)) {
      return Error{EBADMSG, "line " + std::to_string(i + 1) + " cannot be read"};
    }
    std::string problem = EntryProblem(entry, manifest);
    if (problem.empty()) problem = listed.Problem(entry);
    if (!problem.empty()) return Error{EBADMSG, "'" + Escape(entry.path) + "': " + problem};
    manifest.entries.push_back(std::move(entry));
  }
  return manifest;
}

}  // namespace ppc::artifact
