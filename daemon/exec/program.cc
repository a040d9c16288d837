// SPDX-License-Identifier: Apache-2.0
#include "daemon/exec/program.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <filesystem>
#include <string_view>

#include "daemon/base/digests.h"
#include "daemon/machine/proc_info.h"

namespace ppc {
namespace {

constexpr int kMaxGenerations = 64;

std::string_view NameOf(std::string_view path) { return path.substr(path.rfind('/') + 1); }

bool IsPython(std::string_view exe) {
  return NameOf(exe).starts_with("python") || NameOf(exe).starts_with("pypy");
}

bool IsInterpreter(std::string_view exe) {
  constexpr std::array<std::string_view, 8> kOthers = {"bash", "dash", "sh",   "perl",
                                                       "ruby", "node", "java", "julia"};
  const std::string_view name = NameOf(exe);
  return IsPython(exe) || std::ranges::find(kOthers, name) != kOthers.end();
}

// Options whose value is a word of its own.
bool TakesValue(std::string_view exe, std::string_view option) {
  if (IsPython(exe)) return option == "-W" || option == "-X" || option == "--check-hash-based-pycs";
  return NameOf(exe) == "java" && (option == "-cp" || option == "-classpath" || option == "-p");
}

// A process may write a title over its words; then the interpreter's name is not the first.
bool HasTitle(std::string_view exe, const std::vector<std::string>& words) {
  return IsPython(exe) && !words.empty() && !IsPython(words[0]) &&
         NameOf(words[0]) != NameOf(exe) && words[0].find('/') != 0;
}

// Python's own processes: of multiprocessing ("spawn", "forkserver", the resource tracker).
bool IsHelper(std::string_view exe, const std::vector<std::string>& words) {
  if (HasTitle(exe, words)) return true;
  const auto code = std::ranges::find(words, "-c");
  return IsPython(exe) && code != words.end() && code + 1 != words.end() &&
         (code + 1)->find("multiprocessing") != std::string::npos;
}

struct Look {
  Membership::Root root;
  int group = 0;
  std::string exe;
  std::vector<std::string> words;
};

std::optional<Look> LookAt(const SysRoots& roots, int pid) {
  const std::optional<uint64_t> start = ProcessStartNs(roots, pid);
  const std::optional<int> group = ProcessGroup(roots, pid);
  std::vector<std::string> words = ProcessWords(roots, pid);
  if (!start || !group || words.empty()) return std::nullopt;
  return Look{{pid, *start}, *group, ProcessExe(roots, pid).value_or(words[0]), std::move(words)};
}

std::string CwdOf(const SysRoots& roots, int pid) {
  std::error_code failed;
  return std::filesystem::read_symlink(roots.Proc("/" + std::to_string(pid) + "/cwd"), failed);
}

// "model-00001-of-00004.safetensors": where the number begins and ends; false: it has none.
bool FindNumber(std::string_view name, size_t* begin, size_t* end) {
  const auto is_digit = [&name](size_t at) {
    return at < name.size() && std::isdigit(static_cast<unsigned char>(name[at])) != 0;
  };
  *end = name.rfind("-of-");
  if (*end == std::string_view::npos || !is_digit(*end + 4)) return false;
  *begin = *end;
  while (*begin > 0 && is_digit(*begin - 1)) --*begin;
  return *begin < *end;
}

// The hub's cache names files by their digests, all of one model in one directory.
bool IsHubBlob(std::string_view dir, std::string_view name) {
  constexpr size_t kLeast = 40;
  return NameOf(dir) == "blobs" && name.size() >= kLeast &&
         std::ranges::all_of(name, [](unsigned char c) { return std::isxdigit(c) != 0; });
}

bool HasIndex(Backend* backend, const std::string& dir) {
  bool is_there = false;
  if (backend == nullptr) return false;
  (void)backend->List(dir, [&is_there](const char* name, char) {
    is_there = std::string_view(name).ends_with(".index.json");
    return !is_there;
  });
  return is_there;
}

}  // namespace

std::string ScriptOf(const std::string& exe, const std::vector<std::string>& words,
                     const std::string& cwd) {
  if (!IsInterpreter(exe) || words.empty()) return "";
  if (HasTitle(exe, words)) return words[0];
  for (size_t i = 1; i < words.size(); ++i) {
    const std::string& word = words[i];
    if (word == "-m" || word == "-jar") {
      return i + 1 < words.size() ? word + " " + words[i + 1] : "";
    }
    // The code itself may have a number in it that is another each time.
    if (word == "-c" || word == "-e") return word;
    if (word.starts_with("-")) {
      if (TakesValue(exe, word)) ++i;
      continue;
    }
    if (NameOf(exe) == "java" || word.starts_with("/") || cwd.empty()) return word;
    return (std::filesystem::path(cwd) / word).lexically_normal();
  }
  return "";
}

std::optional<Program> ProgramOf(const SysRoots& roots, int pid, uint64_t start_ns) {
  if (!IsSameProcess(roots, pid, start_ns)) return std::nullopt;
  std::optional<Look> at = LookAt(roots, pid);
  if (!at) return std::nullopt;
  for (int i = 0; i < kMaxGenerations; ++i) {
    const std::optional<int> parent = ProcessParent(roots, at->root.pid);
    if (!parent || *parent <= 1) break;
    std::optional<Look> above = LookAt(roots, *parent);
    if (!above || above->group != at->group || above->exe != at->exe) break;
    if (above->words != at->words && !IsHelper(at->exe, at->words)) break;
    at = std::move(above);
  }
  Program found;
  found.root = at->root;
  found.group = at->group;
  found.exe = at->exe;
  found.script = ScriptOf(at->exe, at->words, CwdOf(roots, at->root.pid));
  found.cgroup = ProcessCgroup(roots, at->root.pid).value_or("");
  found.uid = ProcessUid(roots, at->root.pid);
  return found;
}

std::string ModelOf(Backend* backend, const std::string& path) {
  const size_t slash = path.rfind('/');
  const std::string dir = slash == std::string::npos ? "" : path.substr(0, slash);
  const std::string_view name = NameOf(path);
  size_t begin = 0;
  size_t end = 0;
  if (FindNumber(name, &begin, &end)) {
    return path.substr(0, path.size() - name.size() + begin) + "*" + std::string(name.substr(end));
  }
  return IsHubBlob(dir, name) || HasIndex(backend, dir) ? dir + "/" : path;
}

std::string AutoServiceId(const Program& program, const std::string& model) {
  constexpr size_t kDigits = 16;
  const std::string words = program.exe + '\0' + program.script + '\0' + model;
  return "auto-" + Sha256Hex(words).substr(0, kDigits);
}

}  // namespace ppc
